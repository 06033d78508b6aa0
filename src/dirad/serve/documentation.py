"""What the interface says of itself: the OpenAPI schema, and the page at /docs."""

from typing import Any

ABOUT = """Streams that learn while they answer. What was answered with success is on disk.

Rows are lists in the order of the columns, or objects by column names. Errors are JSON objects
whose `detail` says what is wrong. With tokens, send `Authorization: Bearer TOKEN`."""

_VALUE = {"anyOf": [{"type": kind} for kind in ("number", "string", "boolean", "null")]}
_ROWS = {
    "type": "array",
    "minItems": 1,
    "items": {
        "anyOf": [
            {"type": "array", "items": _VALUE},
            {"type": "object", "additionalProperties": _VALUE},
        ]
    },
}
_LABELS = {"type": "array", "items": _VALUE}
_IDS = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 200}}
_TABLES = {
    kind: {"schema": {"type": "string", "format": "binary"}}
    for kind in (
        "text/csv",
        "application/vnd.apache.arrow.stream",
        "application/vnd.apache.parquet",
    )
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The request is carried out once, however often it is sent with this key.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}
_REFUSAL = {
    "description": "Refused; `detail` says why",
    "content": {
        "application/json": {
            "schema": {"type": "object", "properties": {"detail": {"type": "string"}}}
        }
    },
}
_REFUSALS = dict.fromkeys(("400", "401", "403", "404", "413", "422", "429"), _REFUSAL)


_COLUMN = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "kind": {"enum": ["number", "boolean", "category"]},
        "categories": {"type": "array", "items": {"type": "string"}},
        "fill": {"description": "what replaces a missing value"},
        "gaps": {"type": "boolean", "description": "values may be missing, and models learn that"},
        "other": {"type": "boolean", "description": "categories that are not listed are accepted"},
    },
    "required": ["name"],
}


def _body(
    properties: dict[str, Any], required: list[str], example: Any, tables: bool = False
) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required}
    content: dict[str, Any] = {"application/json": {"schema": schema, "example": example}}
    return {"required": True, "content": content | (_TABLES if tables else {})}


def _operation(description: str, body: dict[str, Any] | None = None, key: bool = False) -> Any:
    extra: dict[str, Any] = {"responses": _REFUSALS}
    if body is not None:
        extra["requestBody"] = body
    if key:
        extra["parameters"] = [_KEY]
    return {"description": description, "openapi_extra": extra}


CREATE = _operation(
    "A stream is a classifier, a regressor or a detector of new tasks (which needs no labels). A "
    "column is a name, which means a number, or an object with `name`, `kind` (number, boolean or "
    "category), `categories`, and `fill`, which replaces missing values. With `gaps`, models learn "
    "which values are missing; with `other`, categories that are not listed count as one more. The "
    "same request again changes nothing; a different one is refused with 409.",
    _body(
        {
            "kind": {"enum": ["classifier", "regressor", "detector"]},
            "columns": {
                "type": "array",
                "minItems": 1,
                "items": {"anyOf": [{"type": "string", "minLength": 1}, _COLUMN]},
            },
            "settings": {"type": "object"},
        },
        ["kind", "columns"],
        {"kind": "classifier", "columns": ["u", "v"], "settings": {"false_alarms": 0.001}},
    ),
)
SAMPLES = _operation(
    "The rows are on disk when the answer arrives, and are learned in order. For each row the "
    "answer has the model that it belongs to, and whether that model knows it, by what was learned "
    "so far (null: no model can tell yet). A table (CSV, Arrow, Parquet) may have a column `label` "
    "and a column `id`.",
    _body(
        {"rows": _ROWS, "labels": _LABELS, "ids": _IDS},
        ["rows"],
        {"rows": [[0.1, 2.0], [0.3, -1.0]], "labels": [1, None]},
        tables=True,
    ),
    key=True,
)
FINISH = _operation("The training of each model ends, and the model is complete.", key=True)
REMOVE = _operation("Its rows are unknown from then on.", key=True)
LABELS = _operation(
    "Labels that became known later, by the numbers of their rows (the first row of the stream is "
    "0, and each answer to samples has `first_row`) or by the ids that were sent with the samples.",
    _body(
        {
            "rows": {"type": "array", "items": {"type": "integer", "minimum": 0}},
            "ids": _IDS,
            "labels": _LABELS,
        },
        ["labels"],
        {"rows": [1], "labels": [0]},
    ),
    key=True,
)
PREDICT = _operation(
    "Predictions, probabilities, the model that answers, and how novel each row is to it. They "
    "come from the last complete state, and never wait for learning. With `explain`, the answer "
    "says what kind of change all rows together show; `coverage` asks a regressor for intervals.",
    _body(
        {
            "rows": _ROWS,
            "labels": _LABELS,
            "explain": {"type": "boolean"},
            "coverage": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        },
        ["rows"],
        {"rows": [[0.1, 2.0]]},
        tables=True,
    ),
)
EVENTS = _operation(
    "Server-sent events: models that were opened (alarms), became stable, were chosen again. With "
    "`Accept: application/json`, a list of those so far. `after` and the header `Last-Event-ID` "
    "leave out earlier ones."
)
EXPORT = _operation(
    "c, onnx, python, formula, dot, svg, or dirad: the model file, which `dirad predict` and "
    "`dirad.load` read. `number` chooses the model of a formula or drawing."
)
HOOK = _operation(
    "The address is called with a POST for each event: by default for alarms only. Calls carry "
    "`X-Dirad-Signature: t=TIME,v1=HEX`, the HMAC-SHA256 of `TIME.BODY` by your secret, and are "
    "repeated until the answer is a success. `format` text sends `text` alone, as chats take it.",
    _body(
        {
            "url": {"type": "string", "format": "uri"},
            "secret": {"type": "string", "minLength": 16, "maxLength": 200},
            "events": {"type": "array", "items": {"type": "string"}},
            "format": {"enum": ["event", "text"]},
        },
        ["url", "secret"],
        {"url": "https://chat.example/hooks/abc", "secret": "at least 16 characters"},
    ),
)
LOGIN = _operation(
    "Sets a cookie that the page cannot read and that no other site can send.",
    _body({"token": {"type": "string"}}, ["token"], {"token": "dirad_…"}),
)


def page(schema: dict[str, Any]) -> str:
    """Return the documentation as a page that loads nothing but this server's style."""
    from dirad.serve.page import rendered

    operations = [
        {"method": method.upper(), "path": path, **operation}
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    tags = list(dict.fromkeys(tag for one in operations for tag in one.get("tags", [])))
    groups = [(tag, [one for one in operations if tag in one.get("tags", [])]) for tag in tags]
    about = schema["info"]["description"].split("\n\n")
    return rendered("docs.html", version=schema["info"]["version"], about=about, groups=groups)
