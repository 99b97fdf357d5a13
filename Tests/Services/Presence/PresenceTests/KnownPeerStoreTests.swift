import Air
import Bytes
import Crypto
import Loop
import Store
import TestSupport
import Testing
import Thali

@testable import Presence

@Suite("The stored key and peers of private presence")
struct KnownPeerStoreTests {
  private static func entry(_ number: UInt32, _ name: String) throws -> StoredPeer {
    StoredPeer(
      number: number, name: name,
      key: try Secp256k1.PrivateKey(copying: [UInt8](repeating: UInt8(number), count: 32)).publicKey)
  }

  @LoopActor
  private static func open(_ folder: ScratchFolder) throws -> (book: KnownPeerStore, stored: KnownPeerStore.Stored) {
    let time = VirtualTime()
    let book = KnownPeerStore(directory: folder.path, disk: time)
    var result: Result<KnownPeerStore.Stored, StoreError>?
    book.open { result = $0 }
    time.advance(by: .zero)
    return (book, try #require(result).get())
  }

  @LoopActor
  private static func write(_ content: StoredPeers, to folder: ScratchFolder) throws {
    let time = VirtualTime()
    let book = KnownPeerStore(directory: folder.path, disk: time)
    var errors: [StoreError?] = []
    book.open { _ in }
    book.write(content) { errors.append($0) }
    time.advance(by: .zero)
    #expect(errors == [nil])
  }

  @Test("The presence key and the known peers are the same after a restart")
  @LoopActor
  func restart() throws {
    let folder = try ScratchFolder()
    let own = try Self.open(folder).stored.own.publicKey
    var content = StoredPeers()
    content.next = 9
    content.peers = [try Self.entry(1, "anna"), try Self.entry(8, "Zoë")]
    try Self.write(content, to: folder)
    let stored = try Self.open(folder).stored
    #expect(stored.own.publicKey == own && stored.content == content && !stored.isVolatile && stored.damage == nil)
  }

  @Test("The files of private presence contain no name or key of a peer in plain text")
  @LoopActor
  func sealed() throws {
    let folder = try ScratchFolder()
    var content = StoredPeers()
    content.peers = [try Self.entry(1, "annabella")]
    try Self.write(content, to: folder)
    let files = try folder.files()
    #expect(files["presence/peers"] != nil && files["presence/presence.key"] != nil)
    for (name, bytes) in files {
      #expect(!contains(bytes, Array("annabella".utf8)), "\(name)")
      #expect(!contains(bytes, Array(content.peers[0].key.point.dropFirst().prefix(16))), "\(name)")
      #expect(try folder.mode(name) == 0o600)
    }
  }

  @Test("With a different store key the known peers cannot be read, and are not replaced by an empty list")
  @LoopActor
  func otherKey() throws {
    let folder = try ScratchFolder()
    var content = StoredPeers()
    content.peers = [try Self.entry(1, "anna")]
    try Self.write(content, to: folder)
    let before = try folder.read("presence/peers")
    try folder.remove("presence/presence.key")
    #expect(throws: StoreError.self) { try Self.open(folder) }
    #expect(try folder.read("presence/peers") == before)
  }

  @Test("A list of known peers with too many peers, a bad name or key, or trailing bytes is refused")
  func malformed() throws {
    var content = StoredPeers()
    content.peers = [try Self.entry(1, "anna")]
    let bytes = content.bytes
    func read(_ bytes: [UInt8]) -> Bool {
      var reader = ByteReader(bytes)
      return (try? StoredPeers(reading: &reader)) != nil
    }
    #expect(read(bytes) && !read(bytes + [0]))
    for count in 0..<bytes.count { #expect(!read(Array(bytes.prefix(count))), "\(count)") }
    var many = bytes
    many[4] = 2
    #expect(!read(many))
    var point = bytes
    point[20] ^= 1
    #expect(!read(point))
    var name = bytes
    name[bytes.count - 1] = 0x0A
    #expect(!read(name))
  }
}
