import Bytes
import Crypto

@testable import Store

extension Target {
  static let store = [
    Target(
      name: "envelope",
      seeds: {
        [Envelope(name: "state", key: nil), Envelope(name: "state", key: key)].map { $0.seal([1, 2, 3], version: 1) }
      },
      run: { bytes in
        for envelope in [Envelope(name: "state", key: nil), Envelope(name: "state", key: key)] {
          if let (version, content) = taken({ try envelope.open(Array(bytes)) }) {
            promise(envelope.seal(content, version: version).elementsEqual(bytes), "an envelope is sealed as it was")
          }
          let sealed = envelope.seal(bytes, version: 7)
          promise(taken { try envelope.open(sealed).content.elementsEqual(bytes) } == true, "what is sealed opens")
        }
      }),
    Target(
      name: "spool-file",
      seeds: {
        guard let spool else { return [] }
        let entry = SpoolEntry(received: 5, dialect: "0.5", peer: "C0:FF:EE:00:00:01", credential: Array("{}".utf8))
        return [
          try SpoolFile.seal(entry, id: spool.id, nonce: nonce, key: spool.key), [3, 48, 46, 53, 0, 123, 125],
          [1, 0xC3, 0],
        ]
      },
      run: openSpoolFile),
  ]

  private static let key = SecretBytes(copying: [UInt8](repeating: 7, count: 32))
  private static let nonce = [UInt8](repeating: 0x11, count: ChaChaPoly.nonceSize)
  private static let spool: (key: SpoolKey, id: SpoolID)? = {
    guard let key = taken({ try SpoolKey(key, .made) }), let id = SpoolID("000102030405060708090a0b0c0d0e0f") else {
      return nil
    }
    return (key, id)
  }()

  /// Once as the file, and once as what is sealed in it.
  private static func openSpoolFile(_ bytes: UnsafeRawBufferPointer) {
    guard let (key, id) = spool else { return promise(false, "there is a key") }
    if let entry = taken({ try SpoolFile.open(Array(bytes), id: id, key: key) }) {
      promise(SpoolFile.size(of: entry) == bytes.count, "an entry is as large as foretold")
    }
    let header = SpoolHeader(
      keyID: key.id, id: id, received: -1, nonce: nonce, sealedCount: UInt32(bytes.count + ChaChaPoly.tagSize))
    let sealed = taken {
      try ChaChaPoly.seal(Array(bytes), key: key.key(for: id), nonce: nonce, aad: header.bytes)
    }
    guard let sealed, let entry = taken({ try SpoolFile.open(header.bytes + sealed, id: id, key: key) }) else { return }
    let again = taken { try SpoolFile.seal(entry, id: id, nonce: nonce, key: key) }
    promise(again == header.bytes + sealed, "a file is written as it was read")
  }
}
