"""What the pages that are measured share: throw-away servers, the program's figures, and how both are written."""
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / os.environ.get("BIN", "target/release")
NAMES = {"mysql": "MySQL", "mariadb": "MariaDB"}


def say(text):
    print(f"{pathlib.Path(sys.argv[0]).name}: {text}", file=sys.stderr, flush=True)


def run(*command):
    """Returns the output; raises if the command fails."""
    return subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, check=True, text=True).stdout


def time_of(seconds):
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            value = seconds * factor
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def count(n):
    return f"{n:,.0f}"


def percent(share):
    return f"{share * 100:.0f} %"


def table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"


def machine():
    return f"Linux {os.uname().release}, {os.cpu_count()} CPUs"


class Server:
    def __init__(self, kind, directory, *options, fresh=False):
        """`fresh`: the data directory is initialised with these options."""
        self.directory = directory / kind
        command = ["tools/throwaway-server", "start", kind, self.directory, f"--owner={os.getpid()}"]
        command += ["--fresh"] * fresh + ["--", *options]
        settings = dict(part.split("=", 1) for part in shlex.split(run(*command)))
        self.kind, self.pid, self.socket = kind, settings["PID"], settings["SOCKET"]
        self.name = f"{NAMES[kind]} {settings['VERSION']}"

    def stop(self):
        run("tools/throwaway-server", "stop", "--now", self.directory)

    def ask(self, query):
        """The rows of the answer, as lists of text."""
        answer = run("mariadb", "--no-defaults", "--socket", self.socket, "--user", "root", "--batch",
                     "--skip-column-names", "--execute", query)
        return [line.split("\t") for line in answer.splitlines()]
