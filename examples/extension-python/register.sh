#!/bin/sh
# Prints the ControllerDeployment with the chart, and the ControllerRegistration.
set -eu
cd "$(dirname "$0")"
chart=$(tar -cz chart | base64 | tr -d '\n')
sed "s|CHART\$|$chart|" registration.yaml
