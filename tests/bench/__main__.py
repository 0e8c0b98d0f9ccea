"""``make bench``: ``lqw verify`` against a bare Python that reads and hashes the same file; the lab; the clients.

The ten minutes of one stream are a part of their own: ``python -m tests.bench.client memory``.
"""

import tempfile
from pathlib import Path

from rich.console import Console

from tests.bench import client, verify
from tests.bench.lab import answers


def main():
    """Print the tables and write the pages."""
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        console.print(verify.write(Path(folder)), markup=False, highlight=False, soft_wrap=True)
    console.print(answers(), markup=False, highlight=False, soft_wrap=True)
    client.main([part for part in client.PARTS if part != "memory"])
    Console().print(client.PAGE.read_text(), markup=False, highlight=False, soft_wrap=True)


main()
