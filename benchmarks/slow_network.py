"""Hosts on this machine, joined by a network whose delay and bandwidth are chosen, for kernels without `tc netem`.

Each host is a network namespace with one TUN device. A thread of this process is the wire between them: it reads each
packet, waits as long as the link would take, and hands it on. Needs root.
"""

import contextlib
import fcntl
import heapq
import itertools
import os
import selectors
import struct
import subprocess
import threading
import time

MTU = 60_000  # few packets: each one passes through Python
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_DESTINATION = 16  # where an IPv4 header has it
_PRIORITY = -15  # the wire does not wait for the cores that the hosts share


class SlowNetwork:
    """A context manager: the hosts exist while it is entered.

    Attributes:
        hosts: a namespace for each; `command_on` runs a command in one.
        delay_secs: of each packet, on its way from one host to another.
        bytes_per_sec: that a host can send; 0 for no limit.
        bytes, packets: that have gone over the wire.
    """

    def __init__(self, hosts: int):
        self.hosts = [f'slow-{os.getpid()}-{number}' for number in range(hosts)]
        self.delay_secs, self.bytes_per_sec = 0.0, 0.0
        self.bytes = self.packets = 0
        self._cleanup = contextlib.ExitStack()
        self._ended = threading.Event()

    def address(self, host: int) -> str:
        return f'10.77.0.{host + 1}'

    def command_on(self, host: int, *command: str) -> list[str]:
        return ['ip', 'netns', 'exec', self.hosts[host], *command]

    def __enter__(self):
        try:
            devices = [self._device(host) for host in range(len(self.hosts))]
        except BaseException:
            self._cleanup.close()
            raise
        wire = threading.Thread(target=self._carry, args=(devices,), daemon=True)
        wire.start()
        self._cleanup.callback(wire.join, 5)
        self._cleanup.callback(self._ended.set)  # called first
        return self

    def __exit__(self, *error) -> None:
        self._cleanup.close()

    def _device(self, host: int) -> int:
        """Makes the host and its device, and returns the device's file."""
        name, device = self.hosts[host], f'tun{os.getpid()}-{host}'[-15:]
        file = os.open('/dev/net/tun', os.O_RDWR | os.O_NONBLOCK)
        self._cleanup.callback(os.close, file)
        fcntl.ioctl(file, _TUNSETIFF, struct.pack('16sH', device.encode(), _IFF_TUN | _IFF_NO_PI))
        _ip('netns', 'add', name)
        self._cleanup.callback(_ip, 'netns', 'delete', name)
        _ip('link', 'set', device, 'netns', name)
        _ip('-n', name, 'address', 'add', f'{self.address(host)}/24', 'dev', device)
        _ip('-n', name, 'link', 'set', device, 'mtu', str(MTU), 'up')
        _ip('-n', name, 'link', 'set', 'lo', 'up')
        return file

    def _carry(self, devices) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _PRIORITY)
        numbers, on_the_way = itertools.count(), []
        by_address = {bytes(map(int, self.address(host).split('.'))): file for host, file in enumerate(devices)}
        free_at = dict.fromkeys(devices, 0.0)
        with selectors.DefaultSelector() as ready:
            for file in devices:
                ready.register(file, selectors.EVENT_READ)
            while not self._ended.is_set():
                until = min(0.1, on_the_way[0][0] - time.monotonic()) if on_the_way else 0.1
                for key, _ in ready.select(max(0.0, until)):
                    packet = os.read(key.fd, MTU)
                    target = by_address.get(packet[_DESTINATION : _DESTINATION + 4])
                    if target is None:  # IPv6, and what goes to nobody here
                        continue
                    now = time.monotonic()
                    if self.bytes_per_sec:
                        free_at[key.fd] = max(now, free_at[key.fd]) + len(packet) / self.bytes_per_sec
                        now = free_at[key.fd]
                    self.bytes, self.packets = self.bytes + len(packet), self.packets + 1
                    heapq.heappush(on_the_way, (now + self.delay_secs, next(numbers), target, packet))
                while on_the_way and on_the_way[0][0] <= time.monotonic():
                    _, _, target, packet = heapq.heappop(on_the_way)
                    with contextlib.suppress(OSError):  # the host's queue is full: TCP sends it again
                        os.write(target, packet)


def _ip(*arguments: str) -> None:
    subprocess.run(['ip', *arguments], check=True)
