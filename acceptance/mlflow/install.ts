/** Makes the environments of the MLflow clients that the acceptance tests drive: `node acceptance/mlflow/install.ts`. */
import { installMlflow, mlflowVersions } from './mlflow-environment.ts'

for (const version of mlflowVersions) console.log(`MLflow ${version}: ${installMlflow(version)}`)
