"""A stored scenario as a user of FastAPI and the SQLAlchemy ORM would serve it: entity, session, response model.

It reads the service's own tables, a scenario with its newest revision in one joined SELECT. Request and answer are
given out as the JSON that they were stored as, without a model of their parts, which spares the peer checking them.
"""

import datetime
import json
import os
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Response
from pydantic import BaseModel
from sqlalchemy import DateTime, ForeignKey, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

PROJECT_ID = 1

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
    version: Mapped[int]
    model_version: Mapped[str]
    created_at: Mapped[datetime.datetime] = mapped_column(DateTime(timezone=True))
    updated_at: Mapped[datetime.datetime] = mapped_column(DateTime(timezone=True))
    deleted_at: Mapped[datetime.datetime | None] = mapped_column(DateTime(timezone=True))
    newest: Mapped[Revision] = relationship(
        primaryjoin=lambda: (Revision.scenario_id == Scenario.id) & (Revision.number == Scenario.latest_number),
        viewonly=True,
        uselist=False,
        lazy="joined",
        innerjoin=True,
    )


class BudgetOut(BaseModel):
    amount: Decimal
    currency: str


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
    key = unicodedata.normalize("NFKC", name).casefold()
    scenario = await session.scalar(
        select(Scenario).where(
            Scenario.project_id == PROJECT_ID, Scenario.name_key == key, Scenario.deleted_at.is_(None)
        )
    )
    if scenario is None:
        raise HTTPException(404, f"No scenario is called {name!r}.")
    etag = f'"{scenario.id}-{scenario.version}"'
    if if_none_match == etag:
        return Response(status_code=304, headers={"ETag": etag})
    response.headers["ETag"] = etag
    response.headers["Cache-Control"] = "private, no-cache"
    return ScenarioOut(
        name=scenario.name,
        description=scenario.description,
        labels=scenario.labels,
        request=json.loads(scenario.newest.request),
        estimate=json.loads(scenario.newest.estimate),
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
    )
