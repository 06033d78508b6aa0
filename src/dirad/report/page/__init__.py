"""One self-contained HTML page about a fitted estimator."""

from dirad.report.page.document import write_page

__all__ = ["write_page"]
