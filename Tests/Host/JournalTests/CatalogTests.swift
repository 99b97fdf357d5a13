import Foundation
import Journal
import Testing

@Suite struct CatalogTests {
  @Test("Every message id is explained in the catalog, and the catalog explains nothing else")
  func catalog() throws {
    let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("systemd/earshotd.catalog")
    let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
    let ids = lines.filter { $0.hasPrefix("-- ") }.map { String($0.dropFirst(3)) }
    #expect(Set(ids) == Set(MessageID.known.map(\.hex)))
    #expect(ids.count == Set(ids).count)
  }
}
