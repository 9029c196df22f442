#!/usr/bin/env python3
"""Tells what is linked into the program: every crate that is not only for building or testing.

    scripts/components.py notices           their licences and the texts of these
    scripts/components.py list VERSION      a list in CycloneDX 1.5 (JSON)

The same Cargo.lock gives the same bytes. Nothing is fetched.
"""
import hashlib
import json
import os
import re
import subprocess
import sys

TARGET = "x86_64-unknown-linux-gnu"
# Files of a crate that have its licence or its notices, in its first two levels.
LICENCE = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)([-._].*)?$", re.IGNORECASE)
# A text of this crate stands for those that have the licence and no file of it.
STANDARD = {"MIT": ("serde", "LICENSE-MIT"), "Apache-2.0": ("serde", "LICENSE-APACHE")}


def cargo(*words):
    command = ["cargo", *words, "--locked", "--offline"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def packages():
    """The linked packages, by name and version."""
    tree = cargo("tree", "--package", "gemelo", "--edges", "normal,no-proc-macro", "--target",
                 TARGET, "--prefix", "none", "--format", "{p}")
    linked = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    every = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", TARGET))
    found = [one for one in every["packages"] if (one["name"], "v" + one["version"]) in linked]
    assert len(found) == len(linked), "every linked package is known"
    return sorted(found, key=lambda one: (one["name"], one["version"]))


def others(every):
    return [one for one in every if one["source"]]


def texts(package):
    """The names and texts of the licence files of a package."""
    top = os.path.dirname(package["manifest_path"])
    found = {}
    for directory, below, names in os.walk(top):
        depth = os.path.relpath(directory, top).count(os.sep) + (directory != top)
        if depth >= 2:
            below.clear()
        below[:] = [name for name in below if name not in ("tests", "examples", "benches")]
        # Zstandard has the GPL there, beside the licence that is taken.
        for name in set(names) - ({"COPYING"} if "LICENSE" in names else set()):
            if LICENCE.match(name) and not name.endswith((".rs", ".toml")):
                path = os.path.join(directory, name)
                with open(path, encoding="utf-8", errors="replace") as file:
                    found[os.path.relpath(path, top)] = file.read().strip() + "\n"
    return sorted(found.items())


def needed(package):
    """Its texts. Where the licence is ours to choose and MIT is one, the others are left out."""
    found = texts(package)
    mit = [name for name, _ in found if "mit" in name.lower()]
    if mit and re.search(r"(\bOR\b|/)", package["license"] or ""):
        # What is below comes from others, with a licence of its own.
        found = [(name, text) for name, text in found
                 if os.sep in name or name in mit or "notice" in name.lower()]
    return [text for _, text in found]


def notices(every):
    crates = others(every)
    by_name = {one["name"]: dict(texts(one)) for one in crates}
    users = {}
    print("gemelo contains these libraries. Their licences follow, each text once.\n")
    for one in crates:
        licence = one["license"] or "see its text"
        print(f"{one['name']} {one['version']}: {licence}, {one['repository'] or 'crates.io'}")
        own = needed(one)
        if not own:
            known = [name for name in STANDARD if name in licence]
            if not known:
                sys.exit(f"components: {one['name']} has no text of its licence ({licence})")
            own = [by_name[crate][file] for crate, file in map(STANDARD.get, known[:1])]
        for text in own:
            users.setdefault(text, []).append(f"{one['name']} {one['version']}")
    for text, names in sorted(users.items(), key=lambda pair: pair[1]):
        print("\n" + "=" * 78 + f"\n{', '.join(dict.fromkeys(names))}:\n\n{text}", end="")


def component(package):
    name, version = package["name"], package["version"]
    one = {"type": "library", "bom-ref": f"{name} {version}", "name": name, "version": version,
           "purl": f"pkg:cargo/{name}@{version}"}
    if package["license"]:
        one["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    return one


def checksums():
    """The checksums of Cargo.lock, by name and version."""
    with open("Cargo.lock", encoding="utf-8") as file:
        text = file.read()
    pattern = r'name = "(.*)"\nversion = "(.*)"\nsource = ".*"\nchecksum = "(.*)"'
    return {(name, version): sum for name, version, sum in re.findall(pattern, text)}


def listing(every, version):
    sums = checksums()
    components = [component(one) for one in every if one["name"] != "gemelo"]
    for one in components:
        checksum = sums.get((one["name"], one["version"]))
        if checksum:
            one["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    with open("Cargo.lock", "rb") as file:
        serial = hashlib.sha256(file.read()).hexdigest()
    serial = f"{serial[:8]}-{serial[8:12]}-5{serial[13:16]}-8{serial[17:20]}-{serial[20:32]}"
    program = {"type": "application", "bom-ref": "gemelo", "name": "gemelo", "version": version}
    print(json.dumps({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "serialNumber": f"urn:uuid:{serial}",
        "version": 1, "metadata": {"component": program}, "components": components,
    }, indent=1))


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    match sys.argv[1:]:
        case ["notices"]:
            notices(packages())
        case ["list", version]:
            listing(packages(), version)
        case _:
            sys.exit(__doc__)


main()
