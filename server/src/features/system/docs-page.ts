export const docsPage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Model Operations Platform: API</title>
<link rel="icon" href="/docs/assets/favicon-32x32.png">
<link rel="stylesheet" href="/docs/assets/swagger-ui.css">
</head>
<body>
<div id="page"></div>
<script src="/docs/assets/swagger-ui-bundle.js"></script>
<script src="/docs/assets/start.js"></script>
</body>
</html>
`

/** A file of its own, so that the page needs no script within. */
export const docsScript = `SwaggerUIBundle({ url: '/openapi.json', dom_id: '#page', deepLinking: true, filter: true, docExpansion: 'none', persistAuthorization: false })
`

/** Its own scripts and styles, requests to this server, and the icons that its styles hold; nothing else. */
export const docsPolicy = [
  "default-src 'none'",
  ...["script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'"],
  ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
].join('; ')
