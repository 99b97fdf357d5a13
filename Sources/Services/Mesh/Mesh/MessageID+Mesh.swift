import Journal

extension Journal.MessageID {
  /// The node takes part in the mesh.
  static let meshStarted = Journal.MessageID(
    "MeshStarted", "5d0b6c0f8e3b4a8f9a51d5b1ab1f6c2e", "The node takes part in the mesh",
    """
    It advertises itself, connects to neighbours and passes on what they say. earshot mesh peers lists who is near.
    """)

  /// The node has left the mesh.
  static let meshStopped = Journal.MessageID(
    "MeshStopped", "8f3e2a7c91d64e5db0c47f12e69a3b58", "The node has left the mesh",
    """
    It has told its neighbours, and has no links any more.
    """)

  /// The clock is not known to be right, so the node sends nothing.
  static let meshClock = Journal.MessageID(
    "MeshClock", "c1a9d47e35f84b0796e2b8f0d4137a65", "The clock is not known to be right, so the mesh says nothing",
    """
    Phones drop what is off by more than two minutes. The node hears and relays, and says nothing by itself until a time
    service has set the clock, or two neighbours' clocks agree with it. Start systemd-timesyncd or another time service;
    on a machine whose clock is right without one, set TrustClock=yes in [Mesh].
    """)

  /// Storing the mesh's identity and messages fails.
  static let meshStoreDegraded = Journal.MessageID(
    "MeshStoreDegraded", "2b7e4f60a8c14d93851e9d6c30f7ab42", "Something is wrong with keeping the mesh's messages",
    """
    The message says what. The node goes on; messages that come in are shown, and their senders are told that they
    arrived only when the disk has taken them. earshot mesh show says so for as long as it lasts.
    """)

  /// The mesh's data is sealed with a key that is missing.
  static let meshLocked = Journal.MessageID(
    "MeshLocked", "46f1d0a97b3e4c58a2e90d17c8b5f362", "What the mesh keeps is sealed with a key that is not there",
    """
    The node does not take part in the mesh, and nothing of what is kept was touched. Bring the key back: the credential
    earshot-mesh of the unit (LoadCredentialEncrypted=), or the file mesh.key beside the database. If it is lost, erase
    what was kept; the node has a new identity then: earshot mesh wipe.
    """)

  /// A link was cut.
  static let meshLinkCut = Journal.MessageID(
    "MeshLinkCut", "e84d05b79f2c4a1ca63b7d9150c8e2f7", "A link of the mesh was cut",
    """
    The message says why. An address that sends nothing but garbage gets no link for five minutes.
    """)

  /// The identity and all messages are erased.
  static let meshWiped = Journal.MessageID(
    "MeshWiped", "7a60c3d8e1954b2f8d04a9f6b2375ce1", "The mesh's identity and messages are erased",
    """
    Somebody asked for it: earshot mesh wipe. The node has a new identity; peers know it as somebody else.
    """)

  /// A peer answered, and could not prove that it owns a verification code.
  static let meshProofWrong = Journal.MessageID(
    "MeshProofWrong", "b09c6d12e7f84a35a1d83f5c6b24e907", "A peer could not prove that a verification code is its own",
    """
    Somebody read the code of a peer, and the peer's answer is not signed with the key of the code. It is not verified.
    Have the code shown anew, face to face; if it happens again, the code and the peer are not of one person.
    """)

  /// All message IDs of the mesh.
  static let mesh: [Journal.MessageID] = [
    .meshStarted, .meshStopped, .meshClock, .meshStoreDegraded, .meshLocked, .meshLinkCut, .meshWiped,
    .meshProofWrong,
  ]
}
