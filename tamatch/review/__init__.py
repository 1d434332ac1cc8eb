"""`tamatch review`: a page on this machine where a person confirms or corrects labels."""

from __future__ import annotations
