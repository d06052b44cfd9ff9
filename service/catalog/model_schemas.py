"""The shape of the catalogue's models, as they are read from its file and as they go on the wire."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from service.catalog.schemas import Slug, Text
from service.estimator.shapes import ModelShape

Architecture = Literal["dense", "moe"]


class NamedModel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published model: its shape, its size as its makers state it, and where both were read.

    A figure that is not published is null, never 0.
    """

    id: Annotated[Slug, Meta(description="The name of this row, for use in requests.")]
    name: Annotated[Text, Meta(description="What its makers call it.")]
    organisation: Annotated[Text, Meta(description="Who trained it.")]
    architecture: Annotated[Architecture, Meta(description="Dense, or a mixture of experts.")]
    parameters: Annotated[int, Meta(ge=1, description="Parameters in all, as published.")]
    active_parameters: Annotated[
        int, Meta(ge=1, description="Parameters at work on one token, as published; all of them in a dense model.")
    ]
    trained_tokens: Annotated[
        float | None, Meta(description="Tokens that it was pre-trained on; null where they are not published.")
    ] = None
    sequence_length: Annotated[int, Meta(ge=1, description="Tokens in a sequence for most of its pre-training.")]
    shape: Annotated[ModelShape, Meta(description="What it is made of; enters a request as it is.")]
    notes: Annotated[str | None, Meta(description="What to know of these figures.")] = None
    source: Annotated[Text, Meta(description="Where shape, size and tokens were read.")]
    aliases: Annotated[tuple[str, ...], Meta(description="Well-known spellings; each means exactly this row.")] = ()
