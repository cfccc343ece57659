"""Pydantic models need nothing here: every converter reads and writes them. These are the names that
programs written for `temporalio.contrib.pydantic` use."""

from __future__ import annotations

from perdure.converter import DataConverter, PayloadConverter

__all__ = ["PydanticPayloadConverter", "pydantic_data_converter"]

PydanticPayloadConverter = PayloadConverter

pydantic_data_converter = DataConverter.default
