"""An EC2 that runs on this machine: moto's AWS API made to behave like EC2, with faults on request and a call log.

    python -m runner.localdev.ec2 --port 0 --port-file FILE

`server` starts it (`Ec2Emulator` in this process, `__main__` in one of its own). A request passes `middleware`:

    aws_request -> call_log -> throttle -> faults -> refusals -> moto (changed by moto_patches) -> faults -> answer

Paths under `/sim/` are `control_api`, for tests and the demo; `control.Ec2Control` is its client. `simulation` holds
what both sides share. Only `moto_patches` touches moto's internals; nothing but `server` imports it, so that a
client of the emulator does not pay for importing moto.

Images are those of `images.json`, the same ids in every region:

    ami-0c0ffee0000000001  Amazon Linux 2023  x86_64
    ami-0c0ffee0000000002  Amazon Linux 2023  arm64
    ami-0c0ffee0000000003  Ubuntu 24.04       x86_64
    ami-0c0ffee0000000004  Ubuntu 24.04       arm64
    ami-0c0ffee0000000005  Debian 12          x86_64
    ami-0c0ffee0000000006  Debian 12          arm64
    ami-0c0ffee0000000007  Amazon Linux 2023  x86_64  an older release, for changes of the image
"""
