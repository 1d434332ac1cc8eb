"""`python -m tamatch` is `tamatch`."""

from .cli import main

raise SystemExit(main())
