import Bytes
import Crypto

/// The symmetric state of a handshake: the hash of all transmitted messages, the chaining key and the cipher key (Noise
/// Protocol Framework, revision 34, section 5.2).
struct SymmetricState: Sendable {
  private(set) var hash: [UInt8]
  /// The chaining key, 32 bytes, followed by the cipher key, 32 bytes.
  private var keys: SecretBytes
  private var hasCipherKey = false
  private var number: UInt64 = 0

  /// - Parameter start: the hash and keys that follow from the protocol name, equal for every handshake.
  init(_ start: Start, prologue: [UInt8]) {
    (hash, keys) = (start.hash, start.keys)
    mix(hash: prologue)
  }

  /// The initial hash and keys, derived from the protocol name.
  struct Start: Sendable {
    let hash: [UInt8]
    let keys: SecretBytes

    /// Takes the name, padded with zeros to 32 bytes, or its hash if the name is longer.
    init(name: String) {
      let name = Array(name.utf8)
      let size = SHA256.size
      hash =
        name.count <= size ? name + [UInt8](repeating: 0, count: size - name.count) : SHA256.hash(name)
      keys = SecretBytes(copying: hash)
    }
  }

  mutating func mix(hash bytes: some Collection<UInt8>) {
    var next = SHA256()
    next.update(hash)
    next.update(bytes)
    hash = next.finish()
  }

  /// Mixes the secret that `own` and `peer` agree on into the keys.
  mutating func mix(_ own: X25519.PrivateKey, with peer: X25519.PublicKey) throws(NoiseError) {
    do throws(CryptoError) {
      keys = try own.nextKeys(with: peer, chainingKey: keys)
    } catch {
      throw NoiseError(error)
    }
    (hasCipherKey, number) = (true, 0)
  }

  /// Returns the bytes to transmit for `plaintext`. Before there is a key, these are the plaintext itself.
  mutating func seal(_ plaintext: [UInt8]) throws(NoiseError) -> [UInt8] {
    guard hasCipherKey else {
      mix(hash: plaintext)
      return plaintext
    }
    let sealed = try cipherKey().seal(plaintext, number: number, aad: hash)
    number += 1
    mix(hash: sealed)
    return sealed
  }

  /// Returns the plaintext of `sealed`. After an error the state must not be used again.
  mutating func open(_ sealed: ArraySlice<UInt8>) throws(NoiseError) -> [UInt8] {
    guard hasCipherKey else {
      mix(hash: sealed)
      return Array(sealed)
    }
    let key = try cipherKey()
    let plaintext: [UInt8]
    do throws(CryptoError) {
      plaintext = try key.open(sealed, number: number, aad: hash)
    } catch {
      throw NoiseError(error)
    }
    number += 1
    mix(hash: sealed)
    return plaintext
  }

  /// Number of bytes that `seal` adds.
  var overhead: Int { hasCipherKey ? ChaChaPoly.tagSize : 0 }

  /// The transport keys: the initiator's, 32 bytes, followed by the responder's, 32 bytes.
  func split() throws(NoiseError) -> SecretBytes {
    do throws(CryptoError) {
      return try HKDF.nextKeys(secret: [], chainingKey: keys)
    } catch {
      throw NoiseError(error)
    }
  }

  private func cipherKey() throws(NoiseError) -> ChaChaPoly.Key {
    do throws(CryptoError) {
      return try ChaChaPoly.Key(keys, at: HMACSHA256.size)
    } catch {
      throw NoiseError(error)
    }
  }
}
