import { directorySource, resolveRoot } from './directory.driver.ts'
import type { ExternalSource, ExternalSources, SourceAddress, SourceSettings } from './external-sources.ts'
import { guardedAgents, vetHost } from './guarded-agents.ts'
import { httpSource } from './http.driver.ts'
import { webAddress } from './http-client.ts'
import { impatient } from './patience.ts'
import { s3Source } from './s3.driver.ts'

/** The sources of this process, each held to the patience and the address rules of the installation. */
export function externalSources(settings: SourceSettings): ExternalSources {
  return {
    async vet(address) {
      if (address.kind === 'directory') await resolveRoot(address.config.path, settings)
      const url = address.kind === 'http' ? address.config.url : address.kind === 's3' ? address.config.endpoint : null
      if (url) vetHost(webAddress(url).hostname, settings.sourceAllowedHosts)
    },
    open: (address) => impatient(openSource(address, settings), settings.sourceSilenceSeconds * 1000),
  }
}

function openSource(address: SourceAddress, settings: SourceSettings): ExternalSource {
  if (address.kind === 'directory') return directorySource(address.config, settings)
  const agents = guardedAgents(settings.sourceAllowedHosts)
  return address.kind === 's3'
    ? s3Source(address.config, address.credentials, agents)
    : httpSource(address.config, address.credentials, agents)
}
