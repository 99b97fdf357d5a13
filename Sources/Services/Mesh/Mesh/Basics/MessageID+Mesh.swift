import Journal

extension Journal.MessageID {
  /// The node takes part in the mesh.
  static let meshStarted = Journal.MessageID(
    "MeshStarted", "5d0b6c0f8e3b4a8f9a51d5b1ab1f6c2e", "The node has joined the mesh",
    """
    The node advertises itself, connects to neighbours and relays their packets. To list its peers: earshot mesh peers.
    """)

  /// The node has left the mesh.
  static let meshStopped = Journal.MessageID(
    "MeshStopped", "8f3e2a7c91d64e5db0c47f12e69a3b58", "The node has left the mesh",
    """
    The node has notified its neighbours, and has closed all links.
    """)

  /// The clock is not trusted, so the node sends nothing.
  static let meshClock = Journal.MessageID(
    "MeshClock", "c1a9d47e35f84b0796e2b8f0d4137a65", "The clock is not trusted, so the mesh node sends nothing",
    """
    Phones drop packets whose time is off by more than two minutes. The node receives and relays, and sends no packets
    of its own until a time service has set the clock, or two neighbours' clocks agree with it. Start systemd-timesyncd
    or another time service; on a machine whose clock is right without one, set TrustClock=yes in [Mesh].
    """)

  /// Storing the mesh's identity and messages fails.
  static let meshStoreDegraded = Journal.MessageID(
    "MeshStoreDegraded", "2b7e4f60a8c14d93851e9d6c30f7ab42", "The mesh store has a problem",
    """
    The message names the problem. The node continues: it shows received messages, and sends their receipts only
    when they are stored on disk. earshot mesh show reports the problem for as long as it lasts.
    """)

  /// The mesh's data is sealed with a key that is missing.
  static let meshLocked = Journal.MessageID(
    "MeshLocked", "46f1d0a97b3e4c58a2e90d17c8b5f362", "The mesh store is encrypted with a key that is missing",
    """
    The node has not joined the mesh, and has changed nothing in the store. Restore the key: the credential earshot-mesh
    of the unit (LoadCredentialEncrypted=), or the file mesh.key beside the database. If the key is lost, erase the
    store, which gives the node a new identity: earshot mesh wipe.
    """)

  /// The mesh closed a link; the entry gives the reason.
  static let meshLinkCut = Journal.MessageID(
    "MeshLinkCut", "e84d05b79f2c4a1ca63b7d9150c8e2f7", "The mesh closed a link",
    """
    The message gives the reason. After too many malformed packets, the peer's address gets no link for five minutes.
    """)

  /// The identity and all messages are erased.
  static let meshWiped = Journal.MessageID(
    "MeshWiped", "7a60c3d8e1954b2f8d04a9f6b2375ce1", "The mesh's identity and messages are erased",
    """
    A program requested this, for example earshot mesh wipe. The node has a new identity, and is a new peer for others.
    """)

  /// A peer answered, and could not prove that it owns a verification code.
  static let meshProofWrong = Journal.MessageID(
    "MeshProofWrong", "b09c6d12e7f84a35a1d83f5c6b24e907", "A peer could not prove that a verification code is its own",
    """
    A verification code was read, and the peer's answer is not signed with the key of the code. The peer was not marked
    as verified. Read a new code in person. If this happens again, code and peer belong to different people.
    """)

  /// All message IDs of the mesh.
  static let mesh: [Journal.MessageID] = [
    .meshStarted, .meshStopped, .meshClock, .meshStoreDegraded, .meshLocked, .meshLinkCut, .meshWiped,
    .meshProofWrong,
  ]
}
