#!/usr/bin/env python3
"""Golden vectors for tokens and digests, made without a line of the Rust code.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install --require-hashes -r requirements.txt
    /tmp/venv/bin/python make.py

A file that is there is compared and never overwritten: what one version of the format made must
open for ever. A new version of the format gets files of its own.
"""

import base64
import hashlib
import hmac
import json
import pathlib
import re
import sys
from decimal import Decimal

from nacl.bindings import crypto_aead_xchacha20poly1305_ietf_encrypt as xchacha20poly1305

HERE = pathlib.Path(__file__).parent
VERSION = b"mrtr1"


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def prefixed(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def hmac_sha256(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()


# ---------------------------------------------------------------------------------- tokens


class Keys:
    """What one configured key comes to, for one variant and one purpose (RFC 5869)."""

    def __init__(self, key: bytes, variant: str, purpose: tuple[str, str]):
        self.prk = hmac_sha256(VERSION, key)
        self.variant = variant.encode()
        self.purpose = [part.encode() for part in purpose]
        self.seal = self.derive(b"seal")
        self.kid = sha256(prefixed(b"mrtr kid 1", self.seal))[:8]
        self.associated = prefixed(VERSION, self.variant, self.kid)

    def derive(self, use: bytes) -> bytes:
        # 32 bytes are one block of HKDF-Expand.
        label = prefixed(VERSION, self.variant, *self.purpose, use)
        return hmac_sha256(self.prk, label + b"\x01")

    def tag(self, slot: str, message: bytes) -> bytes:
        return hmac_sha256(self.derive(b"tag " + slot.encode()), message)[:16]

    def token(self, payload: bytes, nonce: bytes) -> str:
        head = f"{VERSION.decode()}.{self.variant.decode()}.{b64(self.kid)}"
        if self.variant == b"h":
            tag = hmac_sha256(self.seal, self.associated + prefixed(payload))
            return f"{head}.{b64(payload)}.{b64(tag)}"
        sealed = xchacha20poly1305(payload, self.associated, nonce, self.seal)
        return f"{head}.{b64(nonce + sealed)}"


def principal_bytes(principal) -> bytes:
    label = prefixed(b"mrtr principal 1")
    if principal is None:
        return label + b"a"
    parts = [principal["issuer"], principal["subject"]]
    if principal["client"] is not None:
        parts.append(principal["client"])
    kind = b"u" if principal["client"] is None else b"c"
    return label + kind + prefixed(*(part.encode() for part in parts))


def tokens():
    t0 = 1_800_000_000_000
    user = {"issuer": "https://as.example", "subject": "user-a", "client": "app-1"}
    cases = [
        {"principal": user},
        {"principal": {**user, "client": None}, "epoch": bytes(range(0x40, 0x50))},
        {"principal": {**user, "client": ""}, "audience": 'a"b\\c é😀'},
        {"principal": None, "purpose": ("application", "login cookie"), "round": 4294967295},
        {"principal": user, "key": bytes(range(0x20, 0x60)), "data": "null", "exp": t0 + 1},
        {"principal": user, "data": json.dumps({"text": "ü" * 700}, ensure_ascii=False)},
    ]
    for number, case in enumerate(cases):
        for variant in "hx":
            key = case.get("key", bytes(range(32)))
            purpose = case.get("purpose", ("mrtr", "request state"))
            audience = case.get("audience", "https://server.example/mcp")
            exp = case.get("exp", t0 + 600_000)
            epoch = case.get("epoch")
            data = case.get("data", '{"price":190.00,"to":"acct-7"}')
            request = {
                "method": "tools/call",
                "target": "transfer",
                "parts": [{"json": '{"to":"acct-7","amount":100}', "label": "arguments"}],
            }
            digest = request_digest(request)
            keys = Keys(key, variant, purpose)
            nonce, flow = bytes([number] * 16), bytes(range(16))
            claims = {
                "v": 1,
                "iat": t0,
                "exp": exp,
                "aud": audience,
                "sub": b64(keys.tag("principal", principal_bytes(case["principal"]))),
                "dig": b64(keys.tag("request", digest)),
                "nonce": b64(nonce),
                "flow": b64(flow),
                "flow_exp": t0 + 3_600_000,
                "round": case.get("round", 1),
            }
            if epoch:
                claims["epoch"] = b64(epoch)
            payload = json.dumps(claims, ensure_ascii=False, separators=(",", ":"))
            payload = payload[:-1] + ',"data":' + data + "}"
            aead_nonce = bytes(range(number, number + 24))
            yield {
                "variant": variant,
                "key": key.hex(),
                "purpose": list(purpose),
                "audience": audience,
                "principal": case["principal"],
                "request": request,
                "iat": t0,
                "exp": exp,
                "nonce": nonce.hex(),
                "flow": flow.hex(),
                "flow_exp": t0 + 3_600_000,
                "round": claims["round"],
                "epoch": epoch.hex() if epoch else None,
                "data": data,
                "payload": payload,
                "aead_nonce": aead_nonce.hex() if variant == "x" else None,
                "token": keys.token(payload.encode(), aead_nonce),
            }


# --------------------------------------------------------------------------------- refused


def refused():
    """What must not open: each is one step away from the first token of its variant."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for good in list(tokens())[:2]:
        keys = Keys(bytes.fromhex(good["key"]), good["variant"], tuple(good["purpose"]))
        others = Keys(bytes(range(0x20, 0x40)), good["variant"], tuple(good["purpose"]))
        parts = good["token"].split(".")
        last = base64.urlsafe_b64decode(parts[-1] + "=" * (-len(parts[-1]) % 4))

        def with_part(at, part, parts=parts):
            return ".".join([part if n == at % len(parts) else p for n, p in enumerate(parts)])

        def sealed(payload, keys=keys):
            return keys.token(payload.encode(), bytes.fromhex(good["aead_nonce"] or "00"))

        payload = good["payload"]
        seconds = payload.replace('"exp":1800000600000', '"exp":1800000600')
        flipped = bytes([last[0] ^ 1]) + last[1:], last[:-1] + bytes([last[-1] ^ 0x80])
        unused = -len(last) % 3 * 2  # bits of the last character that say nothing
        # A tag has one length; what is encrypted may have any from 40 bytes on.
        length = "malformed" if good["variant"] == "h" else "bad_signature"
        cases = [
            ("a bit of the seal's first byte", with_part(-1, b64(flipped[0])), "bad_signature"),
            ("a bit of its last byte", with_part(-1, b64(flipped[1])), "bad_signature"),
            ("padding", good["token"] + "=", "malformed"),
            ("a line feed", good["token"] + "\n", "malformed"),
            ("a space before it", " " + good["token"], "malformed"),
            ("the other alphabet", with_part(-1, "+" + parts[-1][1:]), "malformed"),
            ("half a seal", with_part(-1, b64(last[: len(last) // 2])), length),
            ("one byte of a seal", with_part(-1, b64(last[:1])), "malformed"),
            ("no seal", with_part(-1, ""), "malformed"),
            ("one byte more", with_part(-1, b64(last + b"\0")), length),
            ("39 bytes", with_part(-1, b64(bytes(39))), "malformed"),
            ("24 bytes", with_part(-1, b64(bytes(24))), "malformed"),
            ("the other variant", with_part(1, "hx".replace(good["variant"], "")), "malformed"),
            ("an upper-case variant", with_part(1, good["variant"].upper()), "malformed"),
            ("no variant", with_part(1, "none"), "malformed"),
            ("another version", with_part(0, "mrtr2"), "malformed"),
            ("no version", with_part(0, ""), "malformed"),
            ("another key's kid", with_part(2, b64(others.kid)), "bad_signature"),
            ("a kid of seven bytes", with_part(2, b64(keys.kid[:7])), "malformed"),
            ("a part more", good["token"] + ".", "malformed"),
            ("a part less", good["token"].rsplit(".", 1)[0], "malformed"),
            ("another key", sealed(payload, others), "bad_signature"),
            ("another version of the claims", sealed(payload.replace('"v":1', '"v":2')), "malformed"),
            ("a claim twice", sealed(payload.replace('"v":1', '"v":1,"v":1')), "malformed"),
            ("a claim less", sealed(payload.replace('"round":1,', "")), "malformed"),
            ("an expiry in seconds", sealed(seconds), "malformed"),
            ("nothing under a good seal", sealed(""), "malformed"),
        ]
        if unused:
            value = alphabet.index(parts[-1][-1])
            alias = parts[-1][:-1] + alphabet[value | ((1 << unused) - 1)]
            cases.append(("bits that say nothing", with_part(-1, alias), "malformed"))
        for why, token, reason in cases:
            assert token != good["token"], why
            yield {"variant": good["variant"], "why": why, "reason": reason, "token": token}


# --------------------------------------------------------------------------------- digests


class Number(str):
    """A number as it was written."""


def canonical(text: str) -> bytes:
    def pairs(members):
        names = [name for name, _ in members]
        assert len(set(names)) == len(names), "duplicate name"
        return dict(members)

    return encode(
        json.loads(text, parse_int=Number, parse_float=Number, object_pairs_hook=pairs)
    )


def encode(value) -> bytes:
    if value is None:
        return b"n"
    if value is True:
        return b"t"
    if value is False:
        return b"f"
    if isinstance(value, Number):
        return encode_number(value)
    if isinstance(value, str):
        return b"s" + prefixed(value.encode())
    if isinstance(value, list):
        return b"[" + b"".join(encode(item) for item in value) + b"]"
    members = sorted((name.encode(), item) for name, item in value.items())
    body = b"".join(b"k" + prefixed(name) + encode(item) for name, item in members)
    return b"{" + body + b"}"


def encode_number(text: str) -> bytes:
    kind = b"d" if re.search(r"[.eE]", text) else b"i"
    mantissa, _, exponent = text.lower().partition("e")
    sign, digits, power = Decimal(mantissa).as_tuple()
    digits = "".join(map(str, digits))
    stripped = digits.rstrip("0")
    power += len(digits) - len(stripped)
    digits = stripped.lstrip("0").encode()
    out = kind + (b"-" if sign else b"+") + prefixed(digits)
    if not digits:
        return out
    down = exponent.startswith("-")
    exponent = exponent.lstrip("+-").lstrip("0")
    if len(exponent) <= 18:
        power += int(exponent or "0") * (-1 if down else 1)
        return out + b"x" + power.to_bytes(8, "big", signed=True)
    spelt = (b"-" if down else b"+") + prefixed(exponent.encode())
    return out + b"y" + power.to_bytes(8, "big", signed=True) + spelt


def request_digest(request) -> bytes:
    out = prefixed(b"mrtr request digest 1", request["method"].encode(), request["target"].encode())
    for part in request["parts"]:
        label = prefixed(part["label"].encode())
        if "json" in part:
            out += b"j" + label + canonical(part["json"])
        elif "bytes" in part:
            out += b"b" + label + prefixed(bytes.fromhex(part["bytes"]))
        else:
            out += b"a" + label
    return sha256(out)


def json_digests():
    texts = [
        "null", "true", "false", '""', '"a"', "[]", "{}", "[[]]", "[{}]", '[""]', "[null]",
        "0", "-0", "0.0", "-0.0", "0e7", "-0E+7", "1", "-1", "10", "100", "1.0", "1.00", "1e0",
        "10e-1", "0.1e1", "1e2", "100.0", "1E+2", "0.001", "1e-3", "190.00", "190", "1e400",
        "1e-400", "123456789012345678901234567890", "12345678901234567890.123456789012345678900",
        "9007199254740993", "9007199254740992", "1e999999999999999999", "1e-999999999999999999",
        "1e1000000000000000000", "1e+0001000000000000000000", "1e-1000000000000000000",
        "10e1000000000000000000", "0e1000000000000000000", "1e0000000000000000000000000000002",
        '{"to":"acct-7","amount":100}', '{"amount":100,"to":"acct-7"}',
        ' {\t"amount" :\r\n100, "\\u0074o" : "acct\\u002d7" } ',
        '"caf\\u00e9"', '"café"', '"cafe\\u0301"', '"\\ud83d\\ude00"', '"😀"',
        '"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f"', '"\\u007f\\u2028"',
        '{"€":1,"\\r":2,"דּ":3,"1":4,"😀":5,"\\u0080":6,"ö":7,"":8}',
        '{"a":{"z":1,"b":[{"y":1,"x":2}]},"A":null}', '{"a":1,"aa":2,"aaa":3}',
        '{"aaa":3,"aa":2,"a":1}', '{"$serde_json::private::Number":"1"}',
        '{"$serde_json::private::RawValue":"1"}', '[1,2]', '[2,1]', '["1",1]', '["ab","c"]',
        '["a","bc"]', "[" * 128 + "]" * 128,
    ]
    for text in texts:
        walked = canonical(text)
        label = "question"
        digest = sha256(prefixed(b"mrtr json digest 1", label.encode()) + walked)
        yield {"text": text, "canonical": walked.hex(), "label": label, "digest": digest.hex()}


def request_digests():
    arguments = {"json": '{"to":"acct-7","amount":100}', "label": "arguments"}
    cases = [
        ("tools/call", "transfer", []),
        ("tools/call", "transfer", [arguments]),
        ("tools/call", "transfe", [{**arguments, "label": "rarguments"}]),
        ("tools/call", "transfer", [{"label": "arguments"}]),
        ("tools/call", "transfer", [{"label": "arguments", "json": "null"}]),
        ("tools/call", "transfer", [{"label": "arguments", "bytes": ""}]),
        ("tools/call", "transfer", [arguments, {"label": "x-tenant", "bytes": "6162ff"}]),
        ("tools/call", "transfer", [{"label": "x-tenant", "bytes": "6162ff"}, arguments]),
        ("resources/read", "file:///a%20b/é", [{"label": "_meta"}]),
        ("prompts/get", "transfer", [arguments]),
    ]
    for method, target, parts in cases:
        request = {"method": method, "target": target, "parts": parts}
        yield {**request, "digest": request_digest(request).hex()}


def main() -> int:
    files = {
        "tokens-1.json": list(tokens()),
        "refused-1.json": list(refused()),
        "digests-1.json": {"json": list(json_digests()), "requests": list(request_digests())},
    }
    differ = 0
    for name, content in files.items():
        path = HERE / name
        text = json.dumps(content, indent=1, ensure_ascii=True) + "\n"
        if not path.exists():
            path.write_text(text)
            print(f"{name}: written")
        elif path.read_text() == text:
            print(f"{name}: the same")
        else:
            print(f"{name}: DIFFERS, and is left as it is", file=sys.stderr)
            differ = 1
    return differ


if __name__ == "__main__":
    sys.exit(main())
