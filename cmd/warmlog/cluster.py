"""How roles and tools reach Kubernetes: the shared flags."""

from subscribers.kubernetes.client import Client, Unconfigured
from warmlog import cli
from warmlog.flags import Flag, Values

FLAGS = (
    Flag("kubeconfig", "kubeconfig file; $KUBECONFIG, the Pod's own account or ~/.kube/config when empty"),
    Flag("context", "context of the kubeconfig; its current one when empty"),
)


async def open_cluster(values: Values) -> Client:
    """Raises Failure when there is no cluster to talk to."""
    try:
        return await Client.open(kubeconfig=values["kubeconfig"], context=values["context"])
    except Unconfigured as error:
        raise cli.Failure(str(error), cli.REFUSED) from None
