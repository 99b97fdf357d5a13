import Bytes
import Common
import Crypto
import Loop
import Store
import Thali

/// A known peer as it is stored: object number, public key and name.
struct StoredPeer: Hashable, Sendable {
  /// The number in the path of the peer's object. It is not reused.
  let number: UInt32
  let name: String
  let key: Secp256k1.PublicKey
}

/// The stored form of all known peers.
///
///     next   4  the number of the next peer, big endian
///     count  2  big endian
///     peers: number 4, point 65, length of the name 1, name in UTF-8
struct StoredPeers: Hashable, Sendable {
  static let longestName = 64
  /// Maximum size in bytes, more than 256 peers with the longest names need.
  static let sizeLimit = 64 << 10

  var next: UInt32 = 1
  var peers: [StoredPeer] = []

  init() {}

  init(reading reader: inout ByteReader) throws(WireError) {
    next = try reader.u32be()
    let count = Int(try reader.u16be())
    guard count <= Limits.knownPeers else { throw .badValue("count") }
    for _ in 0..<count {
      let number = try reader.u32be()
      let point = try reader.bytes(Secp256k1.PublicKey.pointSize)
      let length = Int(try reader.u8())
      guard let name = String(validating: try reader.bytes(length), as: UTF8.self), Self.isName(name) else {
        throw .badValue("name")
      }
      do throws(CryptoError) {
        peers.append(StoredPeer(number: number, name: name, key: try Secp256k1.PublicKey(point: point)))
      } catch {
        throw .badValue("key")
      }
    }
    try reader.finish()
  }

  var bytes: [UInt8] {
    var writer = ByteWriter()
    writer.u32be(next)
    writer.u16be(UInt16(clamping: peers.count))
    for peer in peers {
      writer.u32be(peer.number)
      writer.append(peer.key.point)
      writer.u8(UInt8(clamping: peer.name.utf8.count))
      writer.append(Array(peer.name.utf8))
    }
    return writer.bytes
  }

  /// Whether a peer may have the name: 1 to 64 bytes without control or formatting characters. It does not begin with a
  /// hyphen, a slash or a space, and does not end with a space.
  static func isName(_ text: String) -> Bool {
    (1...longestName).contains(text.utf8.count) && PrintableText.isHarmless(text) && text.first != "-"
      && text.first != "/" && text.first != " " && text.last != " "
  }
}

/// The key of this machine, and its known peers, in the state directory. Disk operations run off the loop, one at a
/// time.
///
/// The long-term key and the key that encrypts the known peers are derived from one stored key: systemd's credential
/// `earshot-presence`, or the file `presence.key`.
@LoopActor
public final class KnownPeerStore {
  /// The stored key and peers.
  struct Stored: Sendable {
    let own: Secp256k1.PrivateKey
    let content: StoredPeers
    /// The damage of the present file, if the previous one was read instead.
    let damage: StoreError?
    /// Whether the key and the peers are lost at the end of this run, because there is no state directory.
    let isVolatile: Bool
  }

  private struct Opened: Sendable {
    let file: AtomicFile
    let secret: SecretBytes
  }

  nonisolated static let keyName = StoreKey.Name("presence")
  private nonisolated static let version: UInt16 = 1

  private let path: String?
  private let fileSystem: any FileSystem
  private let opened: Locked<Opened?>
  private let queue: WriteBehind<StoredPeers, StoreError>

  /// - Parameters:
  ///   - directory: the state directory; nil means `$STATE_DIRECTORY`. Without one, key and peers are in memory only.
  ///   - disk: runs disk operations one at a time, in order.
  public init(
    directory: String?, disk: any Offloading, fileSystem: any FileSystem = SystemFileSystem()
  ) {
    let path = StateDirectory.path(directory) ?? ""
    self.path = path.isEmpty ? nil : path
    let opened = Locked<Opened?>(nil)
    (self.fileSystem, self.opened) = (fileSystem, opened)
    queue = WriteBehind(disk) { KnownPeerStore.write($0, opened) }
  }

  /// Reads the stored key and peers, or makes a key.
  func open(then: @escaping @LoopActor (Result<Stored, StoreError>) -> Void) {
    queue.run({ [path, fileSystem, opened] in Self.read(path, fileSystem, opened) }, then: then)
  }

  /// Stores the known peers.
  ///
  /// - Parameter then: called when the content is durable, or with the error.
  func write(_ content: StoredPeers, then: @escaping @LoopActor (StoreError?) -> Void) {
    guard path != nil else { return then(nil) }
    queue.write(content, then: then)
  }

  /// Calls `then` once, when no operation is under way.
  func whenIdle(then: @escaping @LoopActor () -> Void) {
    queue.whenIdle(then: then)
  }

  // MARK: On the disk

  private nonisolated static func read(
    _ path: String?, _ fileSystem: any FileSystem, _ opened: Locked<Opened?>
  ) -> Result<Stored, StoreError> {
    do throws(StoreError) {
      guard let path else {
        let key = try StoreKey(keyName, SecretBytes(random: StoreKey.size), .made)
        return .success(Stored(own: try identity(key), content: StoredPeers(), damage: nil, isVolatile: true))
      }
      let state = try StateDirectory(path: path, folder: "presence", on: fileSystem)
      let key = try StoreKey.load(keyName, from: state, on: fileSystem)
      let own = try identity(key)
      let secret = try key.key(for: "known peers", count: XChaChaPoly.keySize)
      let file = AtomicFile("peers", in: state.directory, version: version, limit: StoredPeers.sizeLimit)
      opened.withLock { $0 = Opened(file: file, secret: secret) }
      let reading = try file.read { (_, sealed) throws(StoreError) in try unseal(sealed, secret, path) }
      return .success(
        Stored(own: own, content: reading?.value ?? StoredPeers(), damage: reading?.damage, isVolatile: false))
    } catch {
      return .failure(error)
    }
  }

  private nonisolated static func write(_ content: StoredPeers, _ opened: Locked<Opened?>) -> StoreError? {
    guard let target = opened.withLock({ $0 }) else {
      return StoreError(.failed, "The known peers cannot be stored, because they were not read.")
    }
    var random = SystemRandom()
    do throws(StoreError) {
      let sealed: [UInt8]
      do throws(CryptoError) {
        sealed = try XChaChaPoly.sealWithNonce(content.bytes, key: target.secret, randomFrom: &random)
      } catch {
        throw StoreError(.failed, "The known peers cannot be encrypted: \(error).")
      }
      try target.file.write(sealed)
      return nil
    } catch {
      return error
    }
  }

  private nonisolated static func unseal(
    _ sealed: ArraySlice<UInt8>, _ secret: SecretBytes, _ path: String
  ) throws(StoreError) -> StoredPeers {
    let plain: [UInt8]
    do throws(CryptoError) {
      plain = try XChaChaPoly.openWithNonce(sealed, key: secret)
    } catch {
      throw StoreError(
        .damaged,
        "\(path)/presence/peers is damaged, or encrypted with another key. Restore the key, or remove the file.")
    }
    do throws(WireError) {
      var reader = ByteReader(plain)
      return try StoredPeers(reading: &reader)
    } catch {
      throw StoreError(.damaged, "\(path)/presence/peers is damaged: \(error).")
    }
  }

  /// The long-term key of this machine. One in 2^128 derived values is not a key of the curve; then the next value is
  /// used.
  private nonisolated static func identity(_ key: StoreKey) throws(StoreError) -> Secp256k1.PrivateKey {
    for attempt in 0..<4 {
      let secret = try key.key(for: "long-term key \(attempt)", count: Secp256k1.scalarSize)
      do throws(CryptoError) {
        return try Secp256k1.PrivateKey(secret)
      } catch .invalidKey {
        continue
      } catch {
        throw StoreError(.failed, "The long-term key cannot be created: \(error).")
      }
    }
    throw StoreError(.failed, "The long-term key cannot be created.")
  }
}
