"""Runs the Python blocks of how-tos, each page in an empty folder, all in one process: `run_programs.py DOCS FOLDER`.

Blocks of a page share their names, as in a file that grows. A block that begins with the name of a file is saved under
it. Prints a line for each page; ends with 1 when one of them failed.
"""

import os
import re
import sys
import textwrap
import traceback
from pathlib import Path

SECRETS = ("STRIPE", "GITHUB", "SHOPIFY", "SPORTSSTACK")
FOR_TESTS = ("test-with-pytest",)  # run by pytest, in test_howtos.py


def blocks(page: Path) -> list[str]:
    found = re.findall(r"^( *)```python\n(.*?)^ *```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(text) for _, text in found]


def set_up_django(settings: str, folder: Path) -> None:
    """A project with the settings of the page, and an app `shop` with the model that its handler writes."""
    import django
    from django.conf import settings as conf

    given: dict[str, object] = {}
    exec(compile(settings, "settings.py", "exec"), given)
    sys.path.insert(0, str(folder))
    (folder / "shop").mkdir()
    (folder / "shop" / "__init__.py").touch()
    (folder / "shop" / "models.py").write_text(
        "from django.db import models\nclass Payment(models.Model):\n"
        "    invoice = models.CharField(max_length=99)\n    class Meta:\n        app_label = 'shop'\n"
    )
    ours = {name: value for name, value in given.items() if name.isupper()}
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "app.db")}
    conf.configure(SECRET_KEY="x", ROOT_URLCONF="urls", DATABASES={"default": database}, **ours)
    django.setup()


def run(page: Path, folder: Path) -> None:
    names: dict[str, object] = {"__name__": page.stem.replace("-", "_")}
    sys.modules[page.stem.replace("-", "_")] = sys.modules[__name__]  # for frameworks that look a module up
    for number, text in enumerate(blocks(page)):
        saved = re.match(r"# ([\w/]+\.py)\n", text)
        if saved and saved[1] == "settings.py":
            set_up_django(text, folder)
        if saved:
            (folder / saved[1]).parent.mkdir(exist_ok=True)
            (folder / saved[1]).write_text(text, "utf-8")
        exec(compile(text, f"{page.name}, block {number}", "exec"), names)


def main(docs: Path, home: Path) -> int:
    for name in SECRETS:
        os.environ[f"{name}_SECRET"] = "a secret that is long enough to be one"
    os.environ |= dict.fromkeys(("SLACK_SIGNING_SECRET", "TWILIO_AUTH_TOKEN"), "a secret that is long enough")
    os.environ |= {"SMARTCAR_TOKEN": "a secret that is long enough", "SPORTSSTACK_API": "http://127.0.0.1:1"}
    failed = False
    pages = sorted(docs.glob("*.md"), key=lambda page: (page.stem != "receive-in-django", page.stem))  # Django first
    for page in pages:
        if not blocks(page) or page.stem in FOR_TESTS:
            continue
        folder = home / page.stem
        folder.mkdir()
        os.chdir(folder)
        try:
            run(page, folder)
            print("ran", page.stem)
        except Exception:
            failed = True
            print("failed", page.stem, traceback.format_exc())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*(Path(word) for word in sys.argv[1:])))
