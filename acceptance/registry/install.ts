/** Builds the registry clients and suites that the acceptance tests drive: `node acceptance/registry/install.ts`. */
import { installClient, ociClients } from './oci-clients.ts'

for (const client of ociClients) {
  try {
    console.log(`${client}: ${installClient(client)}`)
  } catch (error) {
    // Without Go, or without the way to a source: the tests of the others are none the worse for it.
    console.log(`${client}: its tests will be skipped. ${(error as Error).message.split('\n').at(-1)}`)
  }
}
