import Bytes
import Crypto

@testable import Store
@testable import Verifier

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
        let record = SpoolRecord(received: 5, content: Array("{}".utf8))
        return [try SpoolFile.seal(record, id: spool.id, nonce: nonce, key: spool.key), [123, 125], []]
      },
      run: openSpoolFile),
    Target(
      name: "spool-name",
      seeds: {
        let id = String(repeating: "0a", count: 16)
        return ["00.record", "ff.record", "new", "00.record.erased", "ff.record.damaged", "credential"].map {
          Array("\(id).\($0)".utf8)
        }
      },
      run: { bytes in
        let text = String(decoding: bytes, as: UTF8.self)
        guard let name = SpoolFileName(text) else { return }
        promise(name.text == text, "a name is written as it was read")
        promise(text.hasPrefix("\(name.id)."), "a name begins with its id")
      }),
    Target(
      name: "credential-record",
      seeds: {
        let record = try CredentialRecord(
          dialect: "0.5", peer: "C0:FF:EE:00:00:01", credential: Array("{}".utf8))
        return [record.content, [1, 0, 0], [1, 1, 0xC3, 0], [2] + [UInt8](repeating: 0, count: 18)]
      },
      run: { bytes in
        guard let record = taken({ try CredentialRecord(reading: Array(bytes)) }) else { return }
        let content = record.content
        // A record of the first version is written in the second.
        promise(bytes.first == 1 || content.elementsEqual(bytes), "a record is written as it was read")
        promise(taken { try CredentialRecord(reading: content) } == record, "what is written is read as the same")
        promise(record.fileSize == SpoolFile.size(ofContent: content.count), "a record is as large as foretold")
      }),
  ]

  private static let key = SecretBytes(copying: [UInt8](repeating: 7, count: 32))
  private static let nonce = [UInt8](repeating: 0x11, count: ChaChaPoly.nonceSize)
  private static let spool: (key: SpoolKey, id: SpoolID)? = {
    guard let key = taken({ try SpoolKey(key, .made) }), let id = SpoolID("000102030405060708090a0b0c0d0e0f") else {
      return nil
    }
    return (key, id)
  }()

  /// Opens the bytes once as the file, and once as its sealed content.
  private static func openSpoolFile(_ bytes: UnsafeRawBufferPointer) {
    guard let (key, id) = spool else { return promise(false, "there is a key") }
    if let record = taken({ try SpoolFile.open(Array(bytes), id: id, key: key) }) {
      promise(SpoolFile.size(ofContent: record.content.count) == bytes.count, "a record is as large as foretold")
    }
    let header = SpoolHeader(
      keyID: key.id, id: id, received: -1, nonce: nonce, sealedCount: UInt32(bytes.count + ChaChaPoly.tagSize))
    let sealed = taken {
      try ChaChaPoly.seal(Array(bytes), key: key.key(for: id), nonce: nonce, aad: header.bytes)
    }
    guard let sealed, let record = taken({ try SpoolFile.open(header.bytes + sealed, id: id, key: key) }) else {
      return promise(false, "what is sealed opens")
    }
    promise(record.content.elementsEqual(bytes), "a content is read as it was sealed")
    let again = taken { try SpoolFile.seal(record, id: id, nonce: nonce, key: key) }
    promise(again == header.bytes + sealed, "a file is written as it was read")
  }
}
