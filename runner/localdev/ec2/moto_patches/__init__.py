"""The only package that touches moto's internals: what moto 5.2.5 lacks of EC2's behaviour, put in from outside.

moto is pinned, because the names used here are private to it; every patch has a test in `tests/integration/ec2`.

    application    installs the patches, builds moto's WSGI application, warms it up
    states         states that take time
    visibility     the lag between a launch and its being seen
    launches       RunInstances: client tokens, MaxCount; launch_checks: unknown names
    volumes        volumes with client tokens, and states that take time
    buckets        whose an S3 bucket is, and tags that come with its creation
    changes        changes that need a stopped instance, security groups in use
    cloud          the truth for the control API, and changes beside the AWS API
    current        which simulation all of them obey
"""
