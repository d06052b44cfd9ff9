"""A stored scenario as a user of FastAPI and the SQLAlchemy ORM would serve it: entity, session, response model.

It uses the service's own tables, and reads a scenario with its newest revision in one joined SELECT. Request and answer
are given out as the JSON that they were stored as, without a model of their parts, which spares the peer checking them.
A write computes the estimate, and commits a revision, the scenario, its labels if they are others, and a line of the
audit log together; of two on the same version the mapper's own version counter lets one through.
"""

import datetime
import hashlib
import json
import os
import unicodedata
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Path, Response
from pydantic import AwareDatetime, BaseModel, Field
from sqlalchemy import DateTime, ForeignKey, delete, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.orm.exc import StaleDataError

from bench import fastapi_peer
from bench.fastapi_models import Estimate, EstimateRequest, Money, Section

PROJECT_ID = 1
ACTOR = "local"
GENERATION = 2  # of the JSON, as the service has it in its tags

engine = create_async_engine(os.environ["TRAINCOST_DATABASE_URL"], pool_size=10, max_overflow=0)
sessions = async_sessionmaker(engine, expire_on_commit=False)


class Base(DeclarativeBase):
    pass


class Revision(Base):
    __tablename__ = "scenario_revisions"

    scenario_id: Mapped[int] = mapped_column(ForeignKey("scenarios.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    request: Mapped[bytes]
    estimate: Mapped[bytes]
    # Written, and read by nobody here.
    currency: Mapped[str] = mapped_column(deferred=True)
    total: Mapped[Decimal] = mapped_column(deferred=True)
    model_version: Mapped[str] = mapped_column(deferred=True)
    author: Mapped[str | None] = mapped_column(deferred=True)
    note: Mapped[str] = mapped_column(deferred=True)
    created_at: Mapped[datetime.datetime] = mapped_column(DateTime(timezone=True), deferred=True)


class Label(Base):
    __tablename__ = "scenario_labels"

    scenario_id: Mapped[int] = mapped_column(ForeignKey("scenarios.id"), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]
    project_id: Mapped[int]
    name_key: Mapped[str]
    owner: Mapped[str | None]


class AuditEntry(Base):
    __tablename__ = "audit_log"

    id: Mapped[int] = mapped_column(primary_key=True)
    project_id: Mapped[int]
    at: Mapped[datetime.datetime] = mapped_column(DateTime(timezone=True))
    actor: Mapped[str]
    action: Mapped[str]
    kind: Mapped[str]
    name: Mapped[str]
    before_hash: Mapped[str | None]
    after_hash: Mapped[str | None]
    request_id: Mapped[str | None]


class Scenario(Base):
    __tablename__ = "scenarios"

    id: Mapped[int] = mapped_column(primary_key=True)
    project_id: Mapped[int]
    name: Mapped[str]
    name_key: Mapped[str]
    description: Mapped[str]
    labels: Mapped[dict[str, str]] = mapped_column(JSONB)
    status: Mapped[str]
    owner: Mapped[str | None]
    cost_centre: Mapped[str | None]
    planned_start: Mapped[datetime.datetime | None] = mapped_column(DateTime(timezone=True))
    budget_amount: Mapped[Decimal | None]
    budget_currency: Mapped[str | None]
    latest_number: Mapped[int]
    approved_number: Mapped[int | None]
    version: Mapped[int] = mapped_column()
    model_version: Mapped[str]
    created_at: Mapped[datetime.datetime] = mapped_column(DateTime(timezone=True))
    updated_at: Mapped[datetime.datetime] = mapped_column(DateTime(timezone=True))
    deleted_at: Mapped[datetime.datetime | None] = mapped_column(DateTime(timezone=True))
    words: Mapped[str] = mapped_column(deferred=True)
    currency: Mapped[str]
    total: Mapped[Decimal]
    newest: Mapped[Revision] = relationship(
        primaryjoin=lambda: (Revision.scenario_id == Scenario.id) & (Revision.number == Scenario.latest_number),
        viewonly=True,
        uselist=False,
        lazy="joined",
        innerjoin=True,
    )
    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012  # as SQLAlchemy wants it


class BudgetIn(Section):
    amount: Money
    currency: str = Field(pattern="^[A-Z]{3}$")


Name = Annotated[str, Path(min_length=1, max_length=100)]
LabelKey = Annotated[str, Field(pattern="^[a-z0-9]([a-z0-9_.-]{0,61}[a-z0-9])?$")]
LabelValue = Annotated[str, Field(max_length=200)]
Line = Annotated[str, Field(min_length=1, max_length=200)]


class ScenarioIn(Section):
    request: EstimateRequest
    description: str = Field(default="", max_length=2000)
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict, max_length=32)
    owner: Line | None = None
    cost_centre: Line | None = None
    planned_start: AwareDatetime | None = None
    budget: BudgetIn | None = None
    note: str = Field(default="", max_length=2000)


class BudgetOut(BaseModel):
    amount: Decimal
    currency: str


class VerdictOut(BaseModel):
    status: str
    judged: str
    used_percent: float | None
    headroom: Decimal


class ScenarioOut(BaseModel):
    name: str
    description: str
    labels: dict[str, str]
    request: dict[str, Any]
    estimate: dict[str, Any]
    version: int
    model_version: str
    created_at: datetime.datetime
    updated_at: datetime.datetime
    revision: int
    status: str
    approved_revision: int | None
    owner: str | None
    cost_centre: str | None
    planned_start: datetime.datetime | None
    budget: BudgetOut | None
    verdict: VerdictOut | None


async def get_session() -> AsyncIterator[AsyncSession]:
    async with sessions() as session:
        yield session


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.get("/v1/scenarios/{name}", response_model=ScenarioOut)
async def get_scenario(
    name: str,
    response: Response,
    session: Annotated[AsyncSession, Depends(get_session)],
    if_none_match: Annotated[str | None, Header()] = None,
) -> ScenarioOut | Response:
    scenario = await find(session, name)
    if scenario is None:
        raise HTTPException(404, f"No scenario is called {name!r}.")
    etag = etag_of(scenario)
    if if_none_match == etag:
        return Response(status_code=304, headers={"ETag": etag})
    response.headers["ETag"] = etag
    response.headers["Cache-Control"] = "private, no-cache"
    return shown(scenario, scenario.newest.request, scenario.newest.estimate)


@app.put("/v1/scenarios/{name}", response_model=ScenarioOut)
async def put_scenario(
    name: Name,
    body: ScenarioIn,
    session: Annotated[AsyncSession, Depends(get_session)],
    if_match: Annotated[str | None, Header()] = None,
    if_none_match: Annotated[str | None, Header()] = None,
    x_request_id: Annotated[str | None, Header(max_length=100)] = None,
) -> Response:
    scenario = await find(session, name)
    check_preconditions(scenario, if_match, if_none_match)
    answer = fastapi_peer.estimate(body.request)
    asked, answered = body.request.model_dump_json().encode(), answer.model_dump_json().encode()
    now = datetime.datetime.now(datetime.UTC)
    before = None
    if scenario is None:
        scenario = Scenario(
            project_id=PROJECT_ID,
            name=unicodedata.normalize("NFC", name),
            name_key=folded(name),
            labels={},
            latest_number=0,
            created_at=now,
        )
        session.add(scenario)
    else:
        before = written(shown(scenario, scenario.newest.request, scenario.newest.estimate))
        if (asked, answered) == (scenario.newest.request, scenario.newest.estimate) and is_described(scenario, body):
            return Response(before, media_type="application/json", headers=headers_of(scenario))
    had = scenario.labels
    describe(scenario, body)
    scenario.latest_number += 1
    scenario.status = "draft"
    scenario.approved_number = None
    scenario.currency = answer.cost.currency
    scenario.total = answer.cost.total
    scenario.model_version = answer.model_version
    scenario.updated_at = now
    try:
        await session.flush()
        session.add(revision_of(scenario, asked, answered, answer, body.note))
        if body.labels != had:
            if had:
                await session.execute(delete(Label).where(Label.scenario_id == scenario.id))
            session.add_all(
                Label(
                    scenario_id=scenario.id,
                    key=key,
                    value=value,
                    project_id=PROJECT_ID,
                    name_key=scenario.name_key,
                    owner=scenario.owner,
                )
                for key, value in body.labels.items()
            )
        after = written(shown(scenario, asked, answered))
        session.add(
            AuditEntry(
                project_id=PROJECT_ID,
                at=now,
                actor=ACTOR,
                action="created" if before is None else "replaced",
                kind="scenario",
                name=scenario.name,
                before_hash=None if before is None else hashlib.sha256(before).hexdigest(),
                after_hash=hashlib.sha256(after).hexdigest(),
                request_id=x_request_id or uuid.uuid4().hex,
            )
        )
        await session.commit()
    except (StaleDataError, IntegrityError) as error:
        raise HTTPException(412, "Somebody else has just changed this scenario: read it again.") from error
    status_code = 201 if before is None else 200
    return Response(after, status_code, media_type="application/json", headers=headers_of(scenario))


async def find(session: AsyncSession, name: str) -> Scenario | None:
    found: Scenario | None = await session.scalar(
        select(Scenario).where(
            Scenario.project_id == PROJECT_ID, Scenario.name_key == folded(name), Scenario.deleted_at.is_(None)
        )
    )
    return found


def folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def etag_of(scenario: Scenario) -> str:
    return f'"{scenario.id}-{scenario.version}-{GENERATION}"'


def headers_of(scenario: Scenario) -> dict[str, str]:
    return {"ETag": etag_of(scenario), "Cache-Control": "private, no-cache"}


def check_preconditions(scenario: Scenario | None, if_match: str | None, if_none_match: str | None) -> None:
    if scenario is None:
        if if_match is not None:
            raise HTTPException(412, "There is no such scenario.")
        return
    if if_none_match is not None and names(if_none_match, etag_of(scenario)):
        raise HTTPException(412, "The scenario exists already.")
    if if_match is None:
        raise HTTPException(428, "The scenario exists: send If-Match.")
    if not names(if_match, etag_of(scenario)):
        raise HTTPException(412, f"The scenario's ETag is {etag_of(scenario)}.")
    if scenario.status == "archived":
        raise HTTPException(409, f"{scenario.name!r} is archived: reopen it first.")


def names(tags: str, etag: str) -> bool:
    return tags.strip() == "*" or etag in [tag.strip() for tag in tags.split(",")]


def described_by(body: ScenarioIn) -> dict[str, Any]:
    return {
        "description": body.description,
        "labels": body.labels,
        "owner": body.owner,
        "cost_centre": body.cost_centre,
        "planned_start": body.planned_start,
        "budget_amount": body.budget and body.budget.amount,
        "budget_currency": body.budget and body.budget.currency,
    }


def is_described(scenario: Scenario, body: ScenarioIn) -> bool:
    return all(getattr(scenario, key) == value for key, value in described_by(body).items())


def describe(scenario: Scenario, body: ScenarioIn) -> None:
    for key, value in described_by(body).items():
        setattr(scenario, key, value)
    scenario.words = f"{scenario.name_key}\n{folded(body.description)}"


def revision_of(scenario: Scenario, asked: bytes, answered: bytes, answer: Estimate, note: str) -> Revision:
    return Revision(
        scenario_id=scenario.id,
        number=scenario.latest_number,
        request=asked,
        estimate=answered,
        currency=answer.cost.currency,
        total=answer.cost.total,
        model_version=answer.model_version,
        author=ACTOR,
        note=note,
        created_at=scenario.updated_at,
    )


def written(scenario: ScenarioOut) -> bytes:
    return scenario.model_dump_json().encode()


def shown(scenario: Scenario, request: bytes, estimate: bytes) -> ScenarioOut:
    return ScenarioOut(
        name=scenario.name,
        description=scenario.description,
        labels=scenario.labels,
        request=json.loads(request),
        estimate=json.loads(estimate),
        version=scenario.version,
        model_version=scenario.model_version,
        created_at=scenario.created_at,
        updated_at=scenario.updated_at,
        revision=scenario.latest_number,
        status=scenario.status,
        approved_revision=scenario.approved_number,
        owner=scenario.owner,
        cost_centre=scenario.cost_centre,
        planned_start=scenario.planned_start,
        budget=None
        if scenario.budget_amount is None or scenario.budget_currency is None
        else BudgetOut(amount=scenario.budget_amount, currency=scenario.budget_currency),
        verdict=verdict_of(scenario),
    )


def verdict_of(scenario: Scenario) -> VerdictOut | None:
    if scenario.budget_amount is None or scenario.budget_currency != scenario.currency:
        return None
    limit, total = scenario.budget_amount, scenario.total
    used = float(total * 100 / limit) if limit else None
    exceeded, near = total > limit, total * 100 >= limit * 90
    return VerdictOut(
        status="exceeded" if exceeded else "warn" if near else "ok",
        judged="total",
        used_percent=used,
        headroom=limit - total,
    )
