import Crypto

/// Result of checking a packet's signature.
public struct SignatureCheck: Hashable, Sendable {
  /// Form of the payload that was signed; nil if the signature is invalid or missing.
  public let form: SignedForm?
  /// Number of signatures computed, 0 to 4, for limits on work.
  public let computed: Int

  /// Whether the signature is valid.
  public var isValid: Bool { form != nil }

  /// Checks the signature of a received packet.
  ///
  /// - Parameters:
  ///   - view: packet as received.
  ///   - packet: the decoded packet.
  ///   - key: signing key announced by the sender.
  ///   - checker: verifies signatures.
  public init(
    _ view: PacketView, decoded packet: Packet, key: Ed25519.PublicKey,
    by checker: some SignatureChecking = ComputedSignatures()
  ) {
    guard let signature = view.signature else {
      self.init(form: nil, computed: 0)
      return
    }
    var tried: [PayloadSection] = []
    for form in SignedForm.forms(of: packet) {
      let preimage: [UInt8]
      if form == .received {
        tried.append(PayloadSection(received: view))
        preimage = view.signingPreimage
      } else {
        // Equal forms, which every packet under 100 bytes has, are computed once.
        guard let section = PayloadSection(packet, as: form), !tried.contains(section),
          let made = try? packet.signingPreimage(section)
        else { continue }
        tried.append(section)
        preimage = made
      }
      if checker.holds(signature, of: preimage, by: key) {
        self.init(form: form, computed: tried.count)
        return
      }
    }
    self.init(form: nil, computed: tried.count)
  }

  private init(form: SignedForm?, computed: Int) {
    self.form = form
    self.computed = computed
  }
}

extension SignedForm {
  /// Length of a file, in bytes, up to which all forms are tried.
  private static let fileBytes = 64 << 10

  /// Returns the forms to try, the likeliest first. A long file is always fragmented, and relays do not recompress
  /// fragments. Its signature therefore covers the received or the uncompressed form, and deflating it to try others
  /// would take too long.
  fileprivate static func forms(of packet: Packet) -> [SignedForm] {
    guard packet.type == .fileTransfer else { return allCases }
    return packet.payload.count > fileBytes ? [.received, .plain] : [.received, .plain, .level6, .level5]
  }
}

extension PayloadSection {
  fileprivate init(received view: PacketView) {
    self.init(bytes: Array(view.section), isCompressed: view.flags.contains(.compressed))
  }

  /// Encodes the payload in a form; nil if an encoder would leave it plain.
  fileprivate init?(_ packet: Packet, as form: SignedForm) {
    switch form {
    case .level6: self.init(deflating: packet.payload, version: packet.version, level: 6)
    case .level5: self.init(deflating: packet.payload, version: packet.version, level: 5)
    case .received, .plain: self.init(plain: packet.payload)
    }
  }
}

/// Verifies signatures. A node computes each result (`ComputedSignatures`). With many nodes in one process, a shared
/// implementation can reuse results.
public protocol SignatureChecking: Sendable {
  /// Whether the owner of the key signed these bytes.
  func holds(_ signature: ArraySlice<UInt8>, of message: [UInt8], by key: Ed25519.PublicKey) -> Bool

  /// Reports a signature made by a node of this process, which is therefore valid.
  func learn(_ signature: [UInt8], of message: [UInt8], by key: Ed25519.PublicKey)
}

extension SignatureChecking {
  public func learn(_ signature: [UInt8], of message: [UInt8], by key: Ed25519.PublicKey) {}
}

/// Verifies each signature anew, without a cache.
public struct ComputedSignatures: SignatureChecking {
  public init() {}

  public func holds(_ signature: ArraySlice<UInt8>, of message: [UInt8], by key: Ed25519.PublicKey) -> Bool {
    key.verify(signature, of: message)
  }
}

/// Form of the payload for which a signature is valid. Facts: bitchat.md section 2.1.
///
/// A sender signs compressed bytes, and relays recompress with their own encoders. A verifier therefore tries the
/// received form first, and then those of the usual encoders.
public enum SignedForm: CaseIterable, Hashable, Sendable {
  /// The payload section as it was received, compressed or not.
  case received
  /// The payload deflated at zlib's level 6.
  case level6
  /// The payload deflated at zlib's level 5.
  case level5
  /// The payload without compression.
  case plain
}

extension Packet {
  /// Signs the packet with `key`, which must be the sender's own. Throws the errors of `encoded`.
  ///
  /// TTL and answer flag may change afterwards, all other fields must not.
  ///
  /// - Parameter checker: is notified of the signature.
  public func signed(
    with key: Ed25519.PrivateKey, telling checker: some SignatureChecking = ComputedSignatures()
  ) throws(PacketError) -> Packet {
    let preimage = try signingPreimage()
    let signature = key.sign(preimage)
    checker.learn(signature, of: preimage, by: key.publicKey)
    var signed = self
    signed.signature = signature
    return signed
  }
}
