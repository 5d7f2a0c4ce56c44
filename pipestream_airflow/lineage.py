"""What operators tell OpenLineage. The provider of OpenLineage calls it if it is installed (the extra ``lineage``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

    from pipestream.views.lineage import Lineage


def to_openlineage(lineage: Lineage | None) -> OperatorLineage[Any, Any]:
    """Return datasets with their statistics as facets; without datasets for a task that did nothing.

    It imports the provider, so only the provider's own calls lead here.
    """
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.generated.input_statistics_input_dataset import InputStatisticsInputDatasetFacet
    from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet

    if lineage is None:
        return OperatorLineage()
    inputs = [
        InputDataset(
            namespace=each.namespace,
            name=each.name,
            inputFacets={}
            if each.records is None
            else {"inputStatistics": InputStatisticsInputDatasetFacet(rowCount=each.records)},
        )
        for each in lineage.inputs
    ]
    outputs = [
        OutputDataset(
            namespace=each.namespace,
            name=each.name,
            outputFacets={}
            if each.records is None
            else {"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=each.records)},
        )
        for each in lineage.outputs
    ]
    return OperatorLineage(inputs=inputs, outputs=outputs)
