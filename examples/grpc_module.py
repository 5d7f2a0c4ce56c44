"""A module that is a gRPC service. Run ``python grpc_module.py 50051``.

In a graph: ``module: "grpc:127.0.0.1:50051"``.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import grpc

from pipestream.gen.ai.pipestream.data.module.v1 import module_service_pb2 as messages
from pipestream.gen.ai.pipestream.data.module.v1 import module_service_pb2_grpc as services


class Shout(services.PipeStepProcessorServiceServicer):
    def GetServiceRegistration(self, request, context):  # noqa: N802 - gRPC's name
        return messages.GetServiceRegistrationResponse(module_name="shout", health_check_passed=True)

    def ProcessData(self, request, context):  # noqa: N802 - gRPC's name
        document = request.document
        document.search_metadata.title = document.search_metadata.title.upper()
        return messages.ProcessDataResponse(outcome=messages.PROCESSING_OUTCOME_SUCCESS, output_doc=document)


if __name__ == "__main__":
    server = grpc.server(ThreadPoolExecutor(4))
    services.add_PipeStepProcessorServiceServicer_to_server(Shout(), server)
    print("listening on port", server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}"), flush=True)
    server.start()
    server.wait_for_termination()
