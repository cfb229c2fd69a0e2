# SPDX-License-Identifier: Apache-2.0
"""A bundle of MIME types becomes the fields of a result."""
import base64
import datetime
import decimal
import enum
import math

FIELDS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "e2b/data": "data",
    "e2b/chart": "chart",
}
MAX_DEPTH = 200


class NotPlain(ValueError):
    """The value has no faithful form in JSON."""


def _plain_key(key, is_strict):
    if isinstance(key, str):
        return key
    if is_strict and not (key is None or isinstance(key, (bool, int, float))):
        raise NotPlain(type(key).__name__)
    return str(plain(key, False))


def plain(value, is_strict=True, depth=0):
    """What JSON can hold. Not strict: what it cannot hold as text. No NaN, no infinity: null."""
    if value is None or isinstance(value, (bool, str)) and not isinstance(value, enum.Enum):
        return value
    if depth > MAX_DEPTH:
        raise NotPlain("too deep")
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, is_strict, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_plain_key(key, is_strict): plain(item, is_strict, depth + 1)
                for key, item in value.items()}
    return _plain_scalar(value, is_strict, depth)


def _plain_scalar(value, is_strict, depth):
    try:
        if value != value:  # NaN, NaT
            return None
    except Exception:
        pass  # arrays have no truth, pandas.NA neither
    kind = type(value)
    if isinstance(value, int) and not isinstance(value, enum.Enum):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if kind.__module__ == "numpy":
        if kind.__name__ == "datetime64":
            return str(value.astype("datetime64[s]"))
        if kind.__name__ == "ndarray" or hasattr(value, "item"):
            return plain(value.tolist(), is_strict, depth + 1)
    if kind.__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return None
    if is_strict:
        raise NotPlain(kind.__name__)
    if isinstance(value, decimal.Decimal) and value.is_finite():
        return float(value)
    return str(value)


def json_of(value):
    """For lists and dicts: IPython's formatter for application/json. None: it has no such form."""
    try:
        return plain(value)
    except (NotPlain, RecursionError):
        return None


MAX_CELLS = 2_000_000  # of a table: more would not fit into an event anyway


def data_of(frame):
    """Columns by name, each a list."""
    if frame.size > MAX_CELLS:
        return None
    return {str(name): plain(frame.iloc[:, at].tolist(), is_strict=False)
            for at, name in enumerate(frame.columns)}


def _value(field, value):
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if field in ("png", "jpeg", "pdf") and isinstance(value, str):
        return value.replace("\n", "")  # base64 already, maybe in lines
    if isinstance(value, str):
        return value
    return plain(value, is_strict=False)


def _text(value):
    for quote in "'\"":
        if len(value) >= 2 and value[0] == value[-1] == quote:
            return value[1:-1]
    return value


def fields_of(bundle):
    """Only what is there; types that have no field of their own are in `extra`."""
    fields, extra = {}, {}
    for mime, value in bundle.items():
        if value is None:
            continue
        name = FIELDS.get(mime)
        if name is None:
            extra[mime] = _value(mime, value)
        else:
            fields[name] = _text(value) if name == "text" else _value(name, value)
    fields["extra"] = extra
    return fields


def fit(fields, encode, max_bytes):
    """Leaves out what makes the line too long, and says so in the text. Returns the line."""
    line = encode(fields)
    while len(line) >= max_bytes:  # and its newline
        sizes = {name: len(encode({"": value})) for name, value in fields.items()}
        largest = max(sizes, key=sizes.get)
        note = (f"[{largest} left out: {sizes[largest]} bytes, and a result holds at most "
                f"{max_bytes >> 20} MiB; write it to a file instead]")
        if largest == "extra":
            fields["extra"] = {}
        else:
            del fields[largest]
        fields["text"] = (fields["text"] + "\n" + note) if "text" in fields else note
        line = encode(fields)
    return line
