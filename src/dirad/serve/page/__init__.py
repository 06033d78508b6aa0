"""The live page: what the streams of a server do at the moment."""

from functools import cache
from pathlib import Path
from typing import Any

from dirad import __version__

HERE = Path(__file__).parent
TYPES = {"css": "text/css", "js": "text/javascript"}
SHARED = {  # with the report: names here, and where the report has them
    "report.css": "templates/style.css",
    "elements.js": "script/elements.js",
    "theme.js": "script/theme.js",
}
# The scripts of each page, in the order in which they are run.
LIVE = ("requests", "list", "charts", "events", "drawing", "detail", "live")
SCRIPTS = {
    page: [f"{name}.js" for name in ("elements", "theme", *own)]
    for page, own in {"index.html": LIVE, "docs.html": ("docs",)}.items()
}


def add_page(app: Any) -> None:
    """Add the page and the files that it loads."""
    from fastapi.responses import HTMLResponse, Response

    from dirad.serve.errors import NotFound

    files = static_files()

    @app.get("/", include_in_schema=False)
    async def index() -> HTMLResponse:
        return HTMLResponse(rendered("index.html", version=__version__))

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        if name not in files:
            raise NotFound("there is no such file")
        kind = TYPES[name.rpartition(".")[2]]
        cached = {"Cache-Control": "public, max-age=300"}
        return Response(files[name], media_type=f"{kind}; charset=utf-8", headers=cached)


def static_files() -> dict[str, bytes]:
    """Return all files that pages may load, by name: no path of a client is ever opened."""
    import dirad.report.page

    found = {path.name: path.read_bytes() for path in sorted((HERE / "static").iterdir())}
    report = Path(dirad.report.page.__file__).parent
    return found | {name: (report / path).read_bytes() for name, path in SHARED.items()}


def rendered(name: str, **values: Any) -> str:
    """Return a page, with the scripts that it runs."""
    return _template(name).render(scripts=SCRIPTS[name], **values)


@cache
def _template(name: str) -> Any:
    """Return a template, which escapes everything."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
    environment.filters["code_spans"] = code_spans
    return environment.get_template(name)


def code_spans(text: str) -> Any:
    """Return text as HTML in which what stands between backticks is code.

    >>> print(code_spans("`a<b` or c"))
    <code>a&lt;b</code> or c
    """
    from markupsafe import Markup, escape

    parts = map(escape, text.split("`"))
    marked = [
        Markup("<code>{}</code>").format(one) if i % 2 else one for i, one in enumerate(parts)
    ]
    return Markup("").join(marked)
