# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own _memory_viz.py: of the newest wheel that the package index has, and of Debian's
PyTorch 1.13. Fetched once into a folder; None where it cannot be reached.

VRAMCORE_MEMORY_VIZ=FILE: this one instead of the wheel's.
"""
import glob
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile

INSIDE = "torch/cuda/_memory_viz.py"
WHEEL = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
         "--platform", "macosx_14_0_arm64", "--platform", "macosx_11_0_arm64",
         "--python-version", "311", "--disable-pip-version-check", "torch"] # the smallest of them


# The wheel may be here already, as tests/simtorch keeps it.
ENVIRONMENTS = os.path.join(
    os.environ.get("SIMTORCH_CACHE", os.path.expanduser("~/.cache/vramcore")), "torch-2.15.0", "lib",
    "python3*", "site-packages", INSIDE)


def attempt(command, folder):
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, timeout=300).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def keep(text, path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".part", "wb") as file:
        file.write(text)
    os.rename(path + ".part", path)
    return path


def of_wheel(folder):
    path = os.environ.get("VRAMCORE_MEMORY_VIZ", os.path.join(folder, "wheel", "memory_viz.py"))
    if os.path.exists(path):
        return path
    for installed in sorted(glob.glob(ENVIRONMENTS), reverse=True):
        return installed
    with tempfile.TemporaryDirectory() as place:
        if attempt(WHEEL + ["-d", place], place):
            for wheel in glob.glob(os.path.join(place, "torch-*.whl")):
                with zipfile.ZipFile(wheel) as packed:
                    return keep(packed.read(INSIDE), path)
    return None


def of_debian(folder):
    path = os.path.join(folder, "debian", "memory_viz.py")
    if os.path.exists(path):
        return path
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        if attempt(["apt-get", "-q", "download", "python3-torch"], place):
            for package in glob.glob(os.path.join(place, "*.deb")):
                if attempt(["dpkg-deb", "-x", package, os.path.join(place, "x")], place):
                    found = os.path.join(place, "x/usr/lib/python3/dist-packages", INSIDE)
                    with open(found, "rb") as file:
                        return keep(file.read(), path)
    return None


def load(path):
    """As a module, to call its functions without what they fetch from elsewhere."""
    spec = importlib.util.spec_from_file_location("memory_viz_of_torch", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
