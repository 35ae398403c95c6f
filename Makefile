# Every target sets up what it needs; only Python 3.11+ and make are assumed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
