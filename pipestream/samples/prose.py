"""Words and sentences for the sample documents, in four languages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random


@dataclass(frozen=True, slots=True)
class Language:
    """Building blocks of simple sentences."""

    code: str
    subjects: tuple[str, ...]
    verbs: tuple[str, ...]
    objects: tuple[str, ...]
    endings: tuple[str, ...]


PEOPLE = (
    "Ada Brandt",
    "Bilal Osei",
    "Carmen Ruiz",
    "Dmitri Volkov",
    "Elif Demir",
    "Farah Nasser",
    "Giulia Conti",
    "Hiro Tanaka",
    "Ingrid Solberg",
    "João Pereira",
)
PLACES = ("Antwerp", "Bilbao", "Cork", "Graz", "Lyon", "Malmö", "Porto", "Tartu", "Trieste", "Utrecht")
GOODS = ("bearings", "cable drums", "circuit boards", "filters", "gaskets", "pumps", "sensors", "valves")

LANGUAGES = (
    Language(
        "en",
        (
            "The harbour office",
            "Our night shift",
            "The maintenance crew",
            "A visiting auditor",
            "The survey team",
        ),
        ("checked", "replaced", "measured", "documented", "questioned", "approved"),
        (
            "the cooling pumps of hall two",
            "every entry in the customs register",
            "the old pressure gauges",
            "the water samples from the eastern basin",
            "the delivery notes of the past quarter",
        ),
        (
            "before the storm reached the coast",
            "and found nothing that had to be repaired",
            "because the readings were not what they had been in spring",
            "with the help of two apprentices",
            "while the trains were waiting at the border",
        ),
    ),
    Language(
        "de",
        ("Das Hafenamt", "Die Nachtschicht", "Der Prüfer", "Die Werkstatt", "Das Messteam"),
        ("prüfte", "ersetzte", "vermaß", "beschrieb", "verschob"),
        (
            "die Kühlpumpen der zweiten Halle",
            "alle Einträge im Zollregister",
            "die alten Druckmesser",
            "die Wasserproben aus dem östlichen Becken",
        ),
        (
            "bevor der Sturm die Küste erreichte",
            "und fand nichts, was nicht in Ordnung war",
            "weil die Werte nicht wie im Frühjahr waren",
            "mit der Hilfe von zwei Lehrlingen",
        ),
    ),
    Language(
        "fr",
        ("La capitainerie", "L'équipe de nuit", "Le contrôleur", "L'atelier", "Le laboratoire"),
        ("a vérifié", "a remplacé", "a mesuré", "a décrit", "a signalé"),
        (
            "les pompes de la deuxième halle",
            "toutes les lignes du registre des douanes",
            "les anciens manomètres",
            "les échantillons du bassin est",
        ),
        (
            "avant que la tempête ne touche la côte",
            "et n'a rien trouvé qui ne soit pas en ordre",
            "parce que les valeurs ne sont pas les mêmes que dans le rapport",
            "avec deux apprentis qui sont dans la maison depuis un an",
        ),
    ),
    Language(
        "es",
        ("La oficina del puerto", "El turno de noche", "El inspector", "El taller", "El laboratorio"),
        ("revisó", "cambió", "midió", "describió", "aprobó"),
        (
            "las bombas de la segunda nave",
            "todas las líneas del registro de aduanas",
            "los manómetros que ya no son fiables",
            "las muestras de agua de la dársena del este",
        ),
        (
            "antes de que la tormenta llegara a la costa",
            "y no encontró nada que no fuera correcto",
            "porque los valores no son los de la primavera",
            "con la ayuda de dos aprendices",
        ),
    ),
)


def sentence(rng: Random, language: Language) -> str:
    """Return one sentence."""
    return (
        f"{rng.choice(language.subjects)} {rng.choice(language.verbs)} {rng.choice(language.objects)} "
        f"{rng.choice(language.endings)}."
    )


def paragraph(rng: Random, language: Language) -> str:
    """Return three to six sentences."""
    return " ".join(sentence(rng, language) for _ in range(rng.randint(3, 6)))


def heading(rng: Random) -> str:
    """Return a title for a document."""
    return f"{rng.choice(('Report', 'Minutes', 'Inspection', 'Survey', 'Notice'))} from {rng.choice(PLACES)}"
