// How OpenAPI documents differ from the first for callers: api-smart-diff's classes, corrected where our rules differ.
// Arguments: JSON files, the document before first. Prints a list of changes for each of the others.
import { readFileSync } from "node:fs";
import { apiCompare } from "api-smart-diff";

const METHODS = ["get", "put", "post", "patch", "delete"];

const ends = (path, pattern) => pattern.test(path.join(" > "));
const isAnswer = (path) => path[3] === "responses";

// A stored request comes back in answers: what may be sent may come back, and is judged where it is sent.
const isEcho = ({ path }) => isAnswer(path) && ends(path, / > schema > (.* > )?properties > request > /);

function isBreaking({ path, type, action }) {
  // It takes any other type for harmless in answers.
  if (ends(path, / > type$/) && action === "replace") return true;
  // It takes a removed property for ignored; our request objects refuse what they do not know.
  if (!isAnswer(path) && action === "remove" && ends(path, / > schema > .*properties > [^>]+$/)) return true;
  // Answers may grow: to stop promising that no member will come breaks nobody who was told so.
  if (isAnswer(path) && action === "remove" && ends(path, / > additionalProperties$/)) return false;
  return type === "breaking";
}

// Clients name their functions by operation ids, which it does not compare.
function* renamed(before, after) {
  for (const [path, item] of Object.entries(before.paths)) {
    for (const method of METHODS) {
      const [old, now] = [item[method]?.operationId, after.paths[path]?.[method]?.operationId];
      if (old && now && old !== now) {
        yield { breaking: true, place: `${method.toUpperCase()} ${path}`, text: `operationId ${old} is now ${now}` };
      }
    }
  }
}

function compare(before, after) {
  const changes = apiCompare(before, after)
    // Components are compared where an operation uses them, where it is known who sends them.
    .diffs.filter((diff) => diff.path[0] === "paths" && diff.type !== "annotation" && !isEcho(diff))
    .map((diff) => ({
      breaking: isBreaking(diff),
      place: `${String(diff.path[2] ?? "").toUpperCase()} ${diff.path[1]}`.trim(),
      // Some of its sentences lack their beginning.
      text: diff.description?.startsWith("[") ? diff.description : `[${diff.action}] ${diff.path.slice(3).join(" > ")}`,
    }));
  return [...changes, ...renamed(before, after)];
}

const [before, ...afters] = process.argv.slice(2).map((file) => JSON.parse(readFileSync(file, "utf8")));
process.stdout.write(JSON.stringify(afters.map((after) => compare(before, after))));
