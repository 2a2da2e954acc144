"""Logs of roles: one JSON object a line on standard error, or readable text; the level is set once at start."""

import logging
import sys
from collections.abc import Callable
from typing import Any

import structlog

from warmlog.flags import Flag, one_of

FLAGS = (
    Flag("log-format", "json or text", "json", one_of("json", "text")),
    Flag("log-level", "debug, info, warn or error", "info", one_of("debug", "info", "warn", "error")),
)
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}


def configure(*, role: str, form: str, level: str) -> None:
    last: Callable[..., Any]
    last = structlog.processors.JSONRenderer() if form == "json" else structlog.dev.ConsoleRenderer(colors=False)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(role=role)
