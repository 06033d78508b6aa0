"""Names of inputs and classes in equations, in LaTeX and on a terminal."""

import json
import re
from collections.abc import Sequence

_WORDS = re.compile(r"[^\W\d]\w*( \w+)*")  # a name that equations can contain without quotes
_NODE = re.compile(r"[hy]\d+")  # the names of nodes
_IN_TEXT = {char: f"\\{char}" for char in "{}_%#&$"} | {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
}
# Control characters (except line break and tab), which could control a terminal; characters that
# reverse the direction of text; surrogates and non-characters, which XML 1.0 does not allow.
CONTROL = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def visible(text: str) -> str:
    r"""Return a text with its control characters escaped, so that it is safe to print.

    >>> print(visible("red\x1b[2J"))
    red\x1b[2J
    """
    return CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def is_plain(name: str) -> bool:
    """Return whether an equation can contain a name without quotes.

    >>> is_plain("petal length"), is_plain("region=east, hills"), is_plain("h1")
    (True, False, False)
    """
    return bool(_WORDS.fullmatch(name)) and not _NODE.fullmatch(name)


def quoted(names: Sequence[str] | None) -> list[str] | None:
    """Return names for use in equations: in quotes where they are not plain.

    >>> quoted(["petal length", "region=east, hills", "12"])
    ['petal length', '"region=east, hills"', '"12"']
    """
    if names is None:
        return None
    return [n if is_plain(n) else json.dumps(n, ensure_ascii=False) for n in map(str, names)]


def latex_input(name: str, place: int) -> str:
    r"""Return an input in LaTeX: x0, x1, … as symbols, other names as words.

    >>> print(latex_input("x2", 2), latex_input("ash_of 2", 0), latex_input("a=b, c", 1))
    x_{2} \mathrm{ash\_of\ 2} \left[\text{a=b, c}\right]
    """
    if name == f"x{place}":
        return f"x_{{{place}}}"
    return latex_word(name) if is_plain(name) else rf"\left[{latex_word(name)}\right]"


def latex_word(name: str) -> str:
    r"""Return a name in LaTeX.

    >>> print(latex_word("7"), latex_word("even"), latex_word("50 %"))
    7 \mathrm{even} \text{50 \%}
    """
    if re.fullmatch(r"\d+", name):
        return name
    inside = "".join(_IN_TEXT.get(char, char) for char in name.replace("\n", " "))
    if _WORDS.fullmatch(name):
        return r"\mathrm{" + inside.replace(" ", r"\ ") + "}"
    return rf"\text{{{inside}}}"
