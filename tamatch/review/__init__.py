"""`tamatch start` and `tamatch review`: pages on this machine where a person labels images."""

from __future__ import annotations
