// Judges the results of the cache tests: cache-tests.mjs SUITE RESULTS.json -> a line per test: kind, verdict, id, note.
import fs from 'node:fs'
import path from 'node:path'

const [suite, results] = process.argv.slice(2)
const load = file => import(path.resolve(suite, file))
const { default: tests } = await load('tests/index.mjs')
const { determineTestResult, resultTypes } = await load('test-engine/lib/results.mjs')
const text = fs.readFileSync(results, 'utf8')
const found = JSON.parse(text.slice(text.indexOf('{')))
for (const group of tests) {
  for (const test of group.tests.filter(test => !test.browser_only)) {
    const result = determineTestResult(tests, test.id, found)
    const verdict = Object.keys(resultTypes).find(name => resultTypes[name] === result)
    const note = Array.isArray(found[test.id]) ? found[test.id][1] : ''
    console.log([test.kind ?? 'required', verdict, test.id, note].join('\t'))
  }
}
