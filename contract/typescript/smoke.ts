// What a TypeScript caller writes: typed requests, answers and problems, against a live server. Arguments: its address, a key.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

type Estimate = components["schemas"]["Estimate"];
type EstimateRequest = components["schemas"]["EstimateRequest"];
type Problem = components["schemas"]["Problem"];
type Scenario = components["schemas"]["Scenario"];
type ScenarioWrite = components["schemas"]["ScenarioWrite"];

const [, , baseUrl, key] = process.argv;
assert(baseUrl && key);
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });

const stranger = await createClient<paths>({ baseUrl }).POST("/v1/estimates", { body: {} });
assert.equal(stranger.response.status, 401);
assert.equal(stranger.error?.type, "/errors/unauthenticated");

const classic = await client.POST("/v1/estimates", { body: {} });
assert(classic.data);
const estimate: Estimate = classic.data;
const total: string = estimate.cost.total;
assert.equal(total, "27950.00");

const linked = await client.GET("/v1/estimates", { params: { query: { gpu_count: 256, gpu_cost_per_hour: "4.00" } } });
assert.equal(linked.response.status, 200);

const body: ScenarioWrite = {
  description: "Saved by a generated client",
  labels: { team: "llm" },
  request: {
    cluster: { gpu: "h100-sxm-80gb", gpu_count: 512 },
    scaling: { kind: "interconnect", preset: "ib-ndr-400" },
    budget: { amount: "1500000" },
  },
};
const path = { name: "from-typescript" };
const created = await client.PUT("/v1/scenarios/{name}", { params: { path }, body });
assert.equal(created.response.status, 201);
const etag = created.response.headers.get("ETag");
assert(etag);

const read = await client.GET("/v1/scenarios/{name}", { params: { path } });
assert(read.data);
const scenario: Scenario = read.data;
assert.equal(scenario.description, body.description);
assert.equal(scenario.estimate.verdict?.cost?.status, "ok");
assert.equal(read.response.headers.get("ETag"), etag);

const refused = await client.POST("/v1/estimates", { body: { cluster: { gpu_count: 0 } } });
assert.equal(refused.response.status, 422);
assert(refused.error);
const problem: Problem = refused.error;
assert.equal(problem.status, 422);
assert.deepEqual(
  problem.errors.map(({ pointer }) => pointer),
  ["/cluster/gpu_count"],
);

const blind = await client.DELETE("/v1/scenarios/{name}", { params: { path } });
assert.equal(blind.response.status, 428);
const removed = await client.DELETE("/v1/scenarios/{name}", { params: { path, header: { "If-Match": etag } } });
assert.equal(removed.response.status, 204);

// What the types must refuse; never called.
export const mistakes = [
  // @ts-expect-error a field that does not exist
  (): EstimateRequest => ({ clutser: {} }),
  // @ts-expect-error a unit that does not exist
  () => client.POST("/v1/estimates", { body: { price: { kind: "hourly", amount: "2.50", per: "rack" } } }),
  // @ts-expect-error a scenario without a request
  () => client.PUT("/v1/scenarios/{name}", { params: { path }, body: {} }),
  // @ts-expect-error a parameter that does not exist
  () => client.GET("/v1/gpus", { params: { query: { vendour: "nvidia" } } }),
];

console.log(`an estimate of ${total} USD, a scenario saved, read and deleted, problems typed`);
