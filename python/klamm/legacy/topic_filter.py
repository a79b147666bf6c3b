"""Rewrites and compiles the regular expressions of white- and blacklists, as the Java consumer of Kafka 0.7 does.

All members of a group must read an expression in the same way. `compile_filter` therefore translates Java's syntax into
Python's. `compile_filter` rejects syntax that Java or Python cannot read, or that Java and Python read differently.
"""

from __future__ import annotations

import re
import sys

from klamm.errors import ConfigError

_SPACE = "".join(map(chr, range(0x21)))  # what Java's `trim` removes

_CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
}
_SETS = {"d": "0-9", "w": "a-zA-Z_0-9", "s": r" \t\n\x0b\f\r"}
_CONTROLS = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f", "a": r"\x07", "e": r"\x1b"}
_DOT = r"[^\n\r\x85\u2028\u2029]"
_ANY = r"[\s\S]"


def rewrite(expression: str) -> str:
    """Return an expression in the form in which the Java consumer registers it.

    The function replaces `,` by `|`, and removes blanks and outer quotes.
    """
    expression = expression.strip(_SPACE).replace(",", "|").replace(" ", "")
    return expression.strip("\"'")


def compile_filter(expression: str) -> re.Pattern[str]:
    """Compile an expression that `rewrite` returned, so that Python matches the same names as Java.

    Raises:
        ConfigError: Java or this client cannot read the expression.
    """
    try:
        return re.compile(_Translation(expression).run(), re.ASCII)
    except (_UnreadableError, re.error, OverflowError, RecursionError) as error:
        raise ConfigError(
            f"invalid regular expression {expression!r}: {error}",
            hint="use syntax that Java and Python share; in a white- or blacklist, a comma means '|'",
        ) from error


class _UnreadableError(Exception):
    """The expression has syntax that `compile_filter` does not translate."""


class _Translation:
    """Translates one expression, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._groups = 0
        self._dot = _DOT

    def run(self) -> str:
        if re.search(r"[\n\r\x85\u2028\u2029]", self._text):
            raise _UnreadableError("a registration has one line")
        flags = ""
        if match := re.match(r"\(\?([ims]+)\)", self._text):
            self._at = match.end()
            flags = f"(?{match[1]})"
            self._dot = "." if "s" in match[1] else _DOT
        found = self._alternatives()
        if self._at < len(self._text):
            raise _UnreadableError(f"unmatched ')' at position {self._at}")
        return flags + found

    def _alternatives(self) -> str:
        """Translate the expression up to a closing parenthesis, or up to its end."""
        found: list[str] = []
        can_repeat = False
        while self._at < len(self._text) and self._text[self._at] != ")":
            char = self._text[self._at]
            if char in "*+?{":
                if not can_repeat:
                    raise _UnreadableError(f"nothing to repeat at position {self._at}")
                found.append(self._quantifier())
                can_repeat = False
            elif char in "|^$":
                found.append({"|": "|", "^": "^", "$": r"(?=\n?\Z)"}[char])
                if char in "^$" and self._has_flag("m"):
                    found[-1] = char
                can_repeat = False
                self._at += 1
            else:
                atom, can_repeat = self._atom(char)
                found.append(atom)
        return "".join(found)

    def _has_flag(self, flag: str) -> bool:
        match = re.match(r"\(\?([ims]+)\)", self._text)
        return match is not None and flag in match[1]

    def _atom(self, char: str) -> tuple[str, bool]:
        """Translate one item of the expression. Return the translated item, and whether a quantifier may follow."""
        if char == "(":
            return self._group()
        if char == "[":
            return self._class(), True
        self._at += 1
        if char == ".":
            return self._dot, True
        if char == "\\":
            return self._escape()
        return re.escape(char), True

    def _quantifier(self) -> str:
        match = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})[+?]?").match(self._text, self._at)
        if match is None:
            raise _UnreadableError(f"illegal repetition at position {self._at}")
        self._at = match.end()
        if match[0][-1] == "+" and len(match[0]) > 1 and sys.version_info < (3, 11):
            raise _UnreadableError(f"possessive quantifier {match[0]!r} needs Python 3.11")
        return match[0]

    def _group(self) -> tuple[str, bool]:
        start = self._at
        match = re.compile(r"\((?:\?(?:[:=!>]|<[=!]|[ims]+:))?").match(self._text, self._at)
        opening = match[0] if match else "("
        if self._text[start + len(opening) : start + len(opening) + 1] == "?":
            raise _UnreadableError(f"group {self._text[start : start + 4]!r} at position {start} is not supported")
        if opening == "(?>" and sys.version_info < (3, 11):
            raise _UnreadableError("atomic group needs Python 3.11")
        if opening == "(":
            self._groups += 1
        self._at += len(opening)
        dot = self._dot
        if opening.endswith(":") and "s" in opening:
            self._dot = "."
        inner = self._alternatives()
        self._dot = dot
        if self._text[self._at : self._at + 1] != ")":
            raise _UnreadableError(f"missing ')' for the group at position {start}")
        self._at += 1
        return f"{opening}{inner})", opening not in ("(?=", "(?!", "(?<=", "(?<!")

    def _escape(self) -> tuple[str, bool]:
        """Translate an escape outside of brackets."""
        char = self._text[self._at : self._at + 1]
        if char in ("b", "B", "A", "Z", "z"):
            self._at += 1
            return {"Z": r"(?=\n?\Z)", "z": r"\Z", "A": r"\A"}.get(char, rf"(?u:\{char})"), False
        if char == "Q":
            end = self._text.find(r"\E", self._at)
            end = len(self._text) if end < 0 else end
            quoted = self._text[self._at + 1 : end]
            self._at = end + 2
            # A quantifier after \E repeats only the last character, as in Java.
            return re.escape(quoted), bool(quoted)
        if char.isascii() and char.isdigit() and char != "0":
            self._at += 1
            following = self._text[self._at : self._at + 1]
            if int(char) > self._groups or (following.isascii() and following.isdigit()):
                raise _UnreadableError(f"reference to group {char}{following} that does not exist or is ambiguous")
            return f"(?:\\{char})", True
        is_set, text = self._character()
        return (f"[{text}]" if is_set else text), True

    def _character(self) -> tuple[bool, str]:
        """Translate an escape that is valid inside and outside of brackets.

        Return whether the escape is a set of characters, and the translated escape for use inside brackets.
        """
        char = self._text[self._at : self._at + 1]
        self._at += 1
        if char in _CONTROLS:
            return False, _CONTROLS[char]
        if char.lower() in _SETS and char:
            return True, _SETS[char] if char in _SETS else _outside(_SETS[char.lower()])
        if char in ("p", "P"):
            match = re.compile(r"\{(\w+)\}").match(self._text, self._at)
            if match is None or match[1] not in _CLASSES:
                raise _UnreadableError(f"character class \\{char} at position {self._at - 2} is not supported")
            self._at = match.end()
            text = _CLASSES[match[1]]
            return True, text if char == "p" else _outside(text)
        if char in ("x", "u"):
            digits = 2 if char == "x" else 4
            code = self._text[self._at : self._at + digits]
            if not re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", code):
                raise _UnreadableError(f"invalid escape \\{char}{code}")
            self._at += digits
            return False, f"\\u{int(code, 16):04x}"
        if not char or (char.isascii() and char.isalnum()):
            raise _UnreadableError(f"escape \\{char} at position {self._at - 2} is not supported")
        return False, re.escape(char)

    def _class(self) -> str:
        """Translate a character class in brackets. Java's unions and intersections become lookaheads."""
        start = self._at
        self._at += 1
        is_negated = self._text[self._at : self._at + 1] == "^"
        self._at += is_negated
        if self._text[self._at : self._at + 1] in ("]", "&"):
            raise _UnreadableError(f"{self._text[start : self._at + 1]!r} at position {start} is ambiguous")
        operands: list[list[str]] = [[]]  # the operands of `&&`, each a list of the members of a union
        items = ""
        while (char := self._text[self._at : self._at + 1]) != "]":
            if not char:
                raise _UnreadableError(f"missing ']' for the class at position {start}")
            if char == "[":
                operands[-1].append(self._class())
            elif self._text.startswith("&&", self._at):
                self._at += 2
                operands[-1] += [f"[{items}]"] if items else []
                items = ""
                operands.append([])
            else:
                items += self._range()
        self._at += 1
        operands[-1] += [f"[{items}]"] if items else []
        is_plain = len(operands) == 1 and len(operands[0]) == 1 and items
        if is_plain:
            return f"[^{items}]" if is_negated else f"[{items}]"
        if is_negated or not all(operands):
            # The negation applies to different operands in different releases of Java.
            raise _UnreadableError(f"the class at position {start} is not supported")
        *conditions, last = (f"(?:{'|'.join(union)})" for union in operands)
        return "(?:" + "".join(f"(?={condition})" for condition in conditions) + last + ")"

    def _range(self) -> str:
        """Translate a character, a range or a set in brackets."""
        is_set, first = self._item()
        following = self._text[self._at + 1 : self._at + 2]
        if self._text[self._at : self._at + 1] != "-" or following in ("]", ""):
            return first
        if is_set or following == "[":
            raise _UnreadableError(f"ambiguous '-' at position {self._at}")
        self._at += 1
        is_set, last = self._item()
        if is_set:
            raise _UnreadableError(f"ambiguous '-' before position {self._at}")
        return f"{first}-{last}"

    def _item(self) -> tuple[bool, str]:
        char = self._text[self._at]
        self._at += 1
        if char == "\\":
            if self._text[self._at : self._at + 1] in ("b", "B", "A", "Z", "z", "Q", "E"):
                raise _UnreadableError(f"escape \\{self._text[self._at]} in brackets is not supported")
            return self._character()
        return False, f"\\u{ord(char):04x}" if ord(char) < 1 << 16 else char


def _outside(ranges: str) -> str:
    """Return the complement of some ranges of characters."""
    pattern = re.compile(f"[{ranges}]")
    inside = [code for code in range(1 << 8) if pattern.match(chr(code))]
    found, start = "", 0
    for code in [*inside, 0x110000]:
        if code > start:
            found += f"\\U{start:08x}-\\U{code - 1:08x}"
        start = code + 1
    return found
