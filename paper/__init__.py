"""What judges the paper: its claims, figures and hyper-parameters beside what came out here.

Run from a checkout: `python -m paper NAME`. It is no part of the installed package.
"""
