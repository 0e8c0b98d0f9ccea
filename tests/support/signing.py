"""People with keys, and params folders that allow them."""

import datetime as dt

import yaml

from lqw.params.signers import parse_signers
from lqw.receipt.dsse import public_bytes
from lqw.receipt.keys import new_key, public_text

REASON = "synthetic numbers on a machine that does not exist"


class Person:
    """Somebody with a key."""

    def __init__(self, name, role="captain", *, hosts=("synthetic",), start="2026-01-01", until="2027-12-31"):
        self.key, self.name, self.role = new_key(), name, role
        self.hosts, self.start, self.until = list(hosts), start, until

    @property
    def yaml(self):
        """Return the file to commit."""
        fields = {
            "schema": "lqw-signer/1",
            "name": self.name,
            "role": self.role,
            "public_key": public_text(public_bytes(self.key)),
            "valid_from": dt.date.fromisoformat(self.start),
            "valid_until": None if self.until is None else dt.date.fromisoformat(self.until),
            "hosts": self.hosts,
        }
        return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True).encode()


def files_of(*people, unsigned=()):
    """Return the committed files: path below params/ → bytes."""
    policy = {"schema": "lqw-signing/1", "unsigned_allowed": dict.fromkeys(unsigned, REASON)}
    signers = {f"signers/{at}.yaml": one.yaml for at, one in enumerate(people)}
    return {"signing.yaml": yaml.safe_dump(policy).encode(), **signers}


def allowed(*people, unsigned=()):
    """Return the signers that those files say."""
    return parse_signers(files_of(*people, unsigned=unsigned))


def repository(folder, *people, unsigned=()):
    """Make a folder that looks like a work tree with these signers; return it."""
    (folder / ".git").mkdir(parents=True, exist_ok=True)
    for name, data in files_of(*people, unsigned=unsigned).items():
        place = folder / "params" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return folder
