import Testing
import Thali

@Suite("Service requests at the start of presence streams")
struct ServiceRequestTests {
  private static func read(_ portions: [[UInt8]]) -> ServiceRequestReader.Outcome {
    var reader = ServiceRequestReader()
    for portion in portions {
      let outcome = reader.receive(portion[...])
      if outcome != .incomplete { return outcome }
    }
    return .incomplete
  }

  @Test("A service request is read in portions of any size, and the bytes after it belong to the stream")
  func portions() throws {
    let label = try #require(ServiceLabel("files.v1"))
    let bytes = label.request + [0, 1, 2]
    #expect(Self.read([bytes]) == .service(label, isAnswered: true, rest: [0, 1, 2]))
    #expect(Self.read(label.request.map { [$0] }) == .service(label, isAnswered: true, rest: []))
    for count in 0..<label.request.count {
      #expect(Self.read([Array(bytes.prefix(count))]) == .incomplete, "\(count)")
    }
  }

  @Test("A stream that does not begin with 00 is for the service `default`, with all of its bytes")
  func unnamed() {
    let bytes = Array("GET / HTTP/1.1\r\n".utf8)
    #expect(Self.read([bytes]) == .service(.unnamed, isAnswered: false, rest: bytes))
    #expect(ServiceLabel.unnamed.request.isEmpty)
  }

  @Test(
    "A service request with a bad length or a bad name is malformed",
    arguments: [[0, 0], [0, 65], [0, 255], [0, 1, 0], [0, 1, 0x20], [0, 1, 0xFF], [0, 2, 0x61, 0x2F]] as [[UInt8]])
  func malformed(bytes: [UInt8]) { #expect(Self.read([bytes]) == .malformed) }

  @Test("A service name has 1 to 64 letters, digits, dots, hyphens and underscores")
  func names() {
    for text in ["a", "A-z_0.9", String(repeating: "x", count: 64)] { #expect(ServiceLabel(text)?.text == text) }
    for text in ["", "a b", "a/b", "é", String(repeating: "x", count: 65)] { #expect(ServiceLabel(text) == nil) }
  }
}
