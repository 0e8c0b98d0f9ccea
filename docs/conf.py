"""The documentation as a site: ``make docs`` writes it into runs/docs, warnings are errors."""

import lqw

project = "lqw"
author = "the lqw contributors"
release = lqw.__version__
copyright = "2026, the lqw contributors"  # noqa: A001 - Sphinx's name

extensions = ["myst_parser"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
exclude_patterns = ["conf.py"]

html_theme = "furo"
html_title = "lqw"
html_show_sphinx = False
html_show_copyright = False
html_extra_path = ["examples"]  # reports of real runs, each made of its receipt as it stands in receipts/h200
