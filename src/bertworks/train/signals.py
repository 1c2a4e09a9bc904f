"""SIGTERM and Ctrl-C, which end a training after the step in hand; a second one ends it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Asked:
    """name: of the signal that has come, if one has. It is only noted: a handler may not print."""

    def __init__(self) -> None:
        self.name: str | None = None

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.name is not None:
            raise KeyboardInterrupt
        self.name = signal.Signals(number).name

    @contextmanager
    def listening(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        kept: dict[int, Any] = {one: signal.signal(one, self._note) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)
