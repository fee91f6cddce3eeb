"""The CNN in PyTorch, alone, on a GPU if it sees one, or as two processes of DistributedDataParallel over gloo.

    python -m benchmarks.peers.torch_cnn [--steps=N] [--workers=2]

prints {"steps_per_sec": …}, or {"skipped": why} if PyTorch is not installed.
"""

import importlib.util
import json
import os

from benchmarks import data
from benchmarks.peers import common


def main():
    parser = common.flags(__doc__)
    parser.add_argument('--workers', type=int, default=1, help='processes, a core for each')
    args = common.parse(parser)
    if importlib.util.find_spec('torch') is None:
        common.tell(skipped='PyTorch is not installed')
        return
    number = common.become_cluster(['worker'] * args.workers, pinned=args.workers > 1)

    import torch

    nn = torch.nn
    device = 'cuda' if args.workers == 1 and torch.cuda.is_available() else 'cpu'
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(5408, 64),
        nn.ReLU(),
        nn.Linear(64, data.CLASSES),
    ).to(memory_format=torch.channels_last, device=device)
    if args.workers > 1:
        torch.set_num_threads(1)
        first = json.loads(os.environ['TF_CONFIG'])['cluster']['worker'][0]
        torch.distributed.init_process_group('gloo', init_method=f'tcp://{first}', rank=number, world_size=args.workers)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_of = nn.CrossEntropyLoss()
    features, labels = data.digits()
    images = torch.from_numpy(features['image']).permute(0, 3, 1, 2)[number :: args.workers]
    labels = torch.from_numpy(labels)[number :: args.workers]
    clock = common.Clock(args.warm_up)
    order = torch.randperm(len(images))
    size = data.BATCHES['cnn']
    for step in range(1, args.steps + 1):
        if len(order) < size:
            order = torch.randperm(len(images))
        chosen, order = order[:size], order[size:]
        batch = (images[chosen].float() / 255).contiguous(memory_format=torch.channels_last)
        optimizer.zero_grad()
        loss = loss_of(model(batch.to(device)), labels[chosen].to(device))
        loss.backward()
        optimizer.step()
        clock.at(step)
    if number == 0:
        clock.report()


if __name__ == '__main__':
    main()
