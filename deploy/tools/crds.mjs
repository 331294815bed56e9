// Validates custom resources (KEDA, prometheus-operator, Gateway API) as JSON lists: usage crds.mjs FILE.json…
// Run in the folder where deploy/tools/install put the packages, with this text on standard input: modules are found
// from there.
import { readFileSync } from "node:fs";

const files = process.argv.slice(2);
const KINDS = {
  "keda.sh/v1alpha1": "@kubernetes-models/keda/keda.sh/v1alpha1",
  "monitoring.coreos.com/v1": "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1",
  "gateway.networking.k8s.io/v1": "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1",
};
const CUSTOM = /^(keda\.sh|monitoring\.coreos\.com|gateway\.networking\.k8s\.io)\//;

let bad = 0;
let good = 0;
for (const file of files) {
  for (const document of JSON.parse(readFileSync(file, "utf8"))) {
    if (!CUSTOM.test(document.apiVersion)) continue;
    const name = `${file}: ${document.kind} ${document.metadata.name}`;
    try {
      const Kind = (await import(KINDS[document.apiVersion]))[document.kind];
      new Kind(document).validate();
      good += 1;
    } catch (error) {
      console.error(`${name}: ${error.message}`);
      bad += 1;
    }
  }
}
console.log(`${good} custom resources are valid`);
process.exit(bad ? 1 : 0);
