"""The suites, each a list of rules over the warehouse's views. No heavy import."""

from checks.model import Rule, Suite
from checks.suites.claims import CLAIMS
from checks.suites.cost import COST
from checks.suites.decode import DECODE
from checks.suites.gate import GATE
from checks.suites.imports import IMPORTS
from checks.suites.integrity import INTEGRITY
from checks.suites.points import POINTS
from checks.suites.race import RACE
from checks.suites.serving import SERVING

SUITES: dict[str, Suite] = {
    s.name: s for s in (INTEGRITY, RACE, GATE, DECODE, SERVING, COST, POINTS, IMPORTS, CLAIMS)
}


def rule_of(rule_id: str) -> Rule:
    """Return the rule with that id.

    Raises:
        KeyError: no suite has it.

    """
    return {r.id: r for s in SUITES.values() for r in s.rules}[rule_id]
