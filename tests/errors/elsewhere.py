"""Errors that need more than a line to cause: a part of the message, and the test that does."""

from __future__ import annotations

ELSEWHERE = {  # a part of the message, with a hole for each value; the test
    "Cross-validation needs at least 2 labels": (
        "frozen/test_held_out.py::test_a_class_with_one_label_is_refused"
    ),
    " already have a label: there are none": (
        "frozen/test_pick.py::test_where_there_is_nothing_to_pick"
    ),
    " Give more --time, or --net ": ("frozen/test_tune.py::test_what_fits_into_a_time_is_done"),
    "the GPU failed: ": "faults/test_gpu_failure.py::test_what_counts",
    " The same command continues.": (
        "faults/test_gpu_failure.py::test_a_benchmark_goes_on_by_the_same_command"
    ),
    "augmentation: size must": "augment/test_views.py::test_a_wrong_policy_says_what_is_right",
    "augmentation: pad ": "augment/test_views.py::test_a_wrong_policy_says_what_is_right",
    "augmentation: mean and std": "augment/test_views.py::test_a_wrong_policy_says_what_is_right",
    "augmentation: unknown operation": (
        "augment/test_views.py::test_a_wrong_policy_says_what_is_right"
    ),
    "augmentation: cannot draw": "augment/test_views.py::test_a_wrong_policy_says_what_is_right",
    "augmentation: cutout": "augment/test_views.py::test_a_wrong_policy_says_what_is_right",
    "augmentation: unknown view": "augment/test_views.py::test_a_wrong_call_says_what_is_right",
    "augmentation: expected": "augment/test_views.py::test_a_wrong_call_says_what_is_right",
    "augmentation: images of": "augment/test_views.py::test_a_wrong_call_says_what_is_right",
    ", which is not found from here. Resume it": (
        "faults/test_conditions.py::test_data_that_are_not_found_from_here_are_named"
    ),
    ", which no longer exists. Restore it.": (
        "faults/test_conditions.py::test_data_that_are_not_found_from_here_are_named"
    ),
    ", but runs in one process have the same": (
        "runs/test_seeds.py::test_runs_that_need_other_switches_of_torch_are_not_mixed"
    ),
    "was started with different settings": (
        "bench/test_runner.py::test_a_run_begun_with_other_settings_is_refused"
    ),
    "the shift of its final must": (
        "methods/test_shifted.py::test_a_shift_of_another_length_is_refused"
    ),
    "or a parent fixes": ("methods/test_shifted.py::test_what_a_class_fixes_and_passes_on_is_told"),
    "was started from": "bench/test_runner.py::test_a_run_begun_from_other_weights_is_refused",
    "but this command starts from \0. Use different --results": (
        "bench/test_commands.py::test_results_from_other_weights_are_refused"
    ),
    "a table cannot mix them": "bench/test_tables.py::test_no_table_mixes_starts",
    "was written by a newer version": (
        "bench/test_store.py::test_a_newer_file_is_not_called_damaged"
    ),
    "contains the result of another run": (
        "bench/test_store.py::test_a_renamed_or_damaged_file_is_refused"
    ),
    "Delete it to repeat the run": (
        "bench/test_store.py::test_a_renamed_or_damaged_file_is_refused"
    ),
    "is not the published file": (
        "data/test_cifar.py::test_a_changed_byte_names_the_file_both_sums_and_the_address"
    ),
    " is not the published Food-101: ": "data/test_food101.py::test_wrong_files",
    " (looked for train, imagenet). ": "data/test_imagenet.py::test_wrong_files",
    " images that are not in ": "data/test_imagenet.py::test_wrong_files",
    " is empty. Download it again from ": "data/test_imagenet.py::test_wrong_files",
    " has no images. \0": "data/test_imagenet.py::test_wrong_files",
    " has several labels for each image, but a class": (
        "data/test_medmnist.py::test_several_labels_are_refused"
    ),
    " has no array ": "data/test_medmnist.py::test_wrong_files",
    " is not SVHN's file ": "data/test_svhn.py::test_wrong_files",
    "is not a CIFAR batch": "data/test_cifar.py::test_a_doctored_pickle_runs_nothing",
    " is missing. ": "data/test_cifar.py::test_a_missing_file_is_named",
    " is incomplete: ": "data/test_cifar.py::test_a_missing_file_is_named",
    "images of each of": (
        "data/test_cifar.py::test_unpacked_binary_files_are_checked_by_their_content"
    ),
    "is truncated": "data/test_cifar.py::test_unpacked_binary_files_are_checked_by_their_content",
    "the image cache": "data/test_data_cache.py::test_a_full_disk_is_one_sentence",
    "the file downloaded from": (
        "data/test_data_download.py::test_nothing_is_left_of_a_bad_download"
    ),
    "cannot be downloaded": (
        "data/test_data_download.py::test_offline_says_address_and_folder_at_once"
    ),
    "cannot be read: \0. Unpack it again.": (
        "data/test_eurosat.py::test_a_broken_image_is_an_error_here"
    ),
    "is not the published data: \0 images of \0, expected": (
        "data/test_eurosat.py::test_a_missing_image_is_noticed"
    ),
    ", line \0: ": "data/test_labels.py::test_mistakes_are_told_with_their_line",
    ", lines \0 and ": "data/test_labels.py::test_mistakes_are_told_with_their_line",
    "--labels adds labels to your": (
        "data/test_labels.py::test_sets_with_all_their_labels_take_no_others"
    ),
    "is in the data folder": "data/test_labels.py::test_the_table_must_be_there_and_elsewhere",
    "which is no longer in": ("data/test_splitfile.py::test_a_changed_or_missing_image_is_refused"),
    "has changed since": "data/test_splitfile.py::test_a_changed_or_missing_image_is_refused",
    "is not a table of a run": "data/test_splitfile.py::test_what_is_no_split_file",
    "labelled images can be held out, as": (
        "data/test_splits.py::test_what_was_learnt_before_never_validates"
    ),
    " was trained from ": (
        "runs/test_go_on.py::test_folds_of_a_run_that_goes_on_begin_as_the_first_one_did"
    ),
    "--fold would hold out": "runs/test_go_on.py::test_contradictions_are_refused",
    "STL-10's publisher": (
        "data/test_stl10.py::test_a_short_file_is_noticed_even_under_its_checksum"
    ),
    "processes cannot share": "dist/test_launch.py::test_a_batch_that_cannot_be_shared",
    "teach takes a label from 0 to ": (
        "methods/test_taught.py::test_what_is_no_label_and_amount_of_each_image_is_refused"
    ),
    " trains in one process, not in ": "dist/test_launch.py::test_a_taught_net_has_one_process",
    "torchrun works only": "dist/test_launch.py::test_one_process_of_a_machine_speaks",
    "normalise the images of each process": (
        "dist/test_norm.py::test_layers_of_other_nets_become_ours"
    ),
    "than in process 0": "dist/test_runs.py::test_two_processes_make_the_run_of_one",
    "do not match this version": (
        "faults/test_conditions.py::test_a_checkpoint_of_another_kind_is_refused"
    ),
    "cannot resume \0: \0": "faults/test_conditions.py::test_changed_data_are_refused",
    "When there is space again": "faults/test_disk.py::test_no_room_for_a_file",
    "loss part ": "faults/test_numbers.py",
    "forward must return": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "must be a tensor with one number": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "of its loss has no gradient": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "of its loss must be a tensor": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "cannot be the name of a part": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "of its loss is not finite in": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "must be a tuple, with a comma": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "views must be": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "has no shape before": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "is replaced in a step": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    " changes in a step": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "its __init__ must take": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "its view \0 is unknown": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "is not saved: register": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "but no checkpoint holds it": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "a step draws from": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "repeated from the saved state": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "weights that torch does not see": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "it adds \0 to the net": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "which is exported under this name": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "must be a net, not": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "does not move the averaged": "own/test_method.py::test_a_mistake_is_told_in_one_line",
    "is missing in some steps": "step/test_meter.py::test_each_step_has_the_same_parts",
    "steps gave non-finite values": "faults/test_numbers.py",
    "is not finite after step": "faults/test_numbers.py",
    "'s option \0 has the unsupported type": (
        "settings/test_config.py::test_an_option_that_would_be_misread_is_refused"
    ),
    "has an invalid default": (
        "settings/test_config.py::test_an_option_that_would_be_misread_is_refused"
    ),
    "has the name of an option of the run": (
        "settings/test_config.py::test_an_option_that_would_be_misread_is_refused"
    ),
    "\0=\0 is unknown": "methods/test_compose.py::test_a_wrong_name_is_told_with_its_near_miss",
    "resume_seeds takes one or more": "runs/test_seeds.py::test_no_run_to_resume_is_told",
    "fixes \0, or its type is none": "own/test_method.py"
    "::test_a_keyword_that_says_nothing_about_itself_is_no_option",
    "cannot be captured as a CUDA graph": "step/test_engine.py"
    "::test_a_step_that_cannot_be_recorded_is_told_with_its_first_cause",
    ": this run uses ": (
        "runs/test_handed_over.py::test_a_class_that_no_file_has_by_name_is_handed_over_again"
    ),
    "For this run: ": (
        "runs/test_handed_over.py::test_where_the_file_is_gone_the_class_can_be_given"
    ),
    "starts a run while": "runs/test_handed_over.py::test_a_file_that_starts_a_run_when_imported",
    " already exists. ": "runs/test_seeds.py::test_without_out_each_has_its_usual_folder",
    "the features cannot be kept": "nets/test_features.py::test_a_cache_that_cannot_be_written",
    "their SHA-256 is not the one": (
        "nets/test_pretrained.py::test_a_file_that_is_damaged_later_is_noticed"
    ),
    "computes another activation": (
        "nets/test_pretrained.py::test_another_activation_is_not_taken_for_openai_s"
    ),
    "or not at that revision": "nets/test_pretrained.py::test_a_revision_can_be_given",
    "and the hub cannot be reached": (
        "nets/test_pretrained.py::test_without_a_network_it_says_how_to_get_them"
    ),
    "the hub's cache \0 cannot": "nets/test_pretrained.py::test_a_cache_that_must_not_be_written",
    "timm \0 has no net": "nets/test_timm.py::test_what_timm_cannot_build_is_told_in_one_line",
    "\0 failed (": "own/test_net.py::test_a_mistake_is_told_with_its_place",
    "must return an nn.Module": "own/test_net.py::test_a_mistake_is_told_with_its_place",
    "expected logits": "own/test_net.py::test_a_mistake_is_told_with_its_place",
    "returns probabilities": "own/test_net.py::test_a_mistake_is_told_with_its_place",
    "nothing in it can be trained": "own/test_net.py::test_a_mistake_is_told_with_its_place",
    "only tensors can be saved": "own/test_net.py::test_a_mistake_is_told_with_its_place",
    "needs the gradient with": "own/test_net.py::test_vat_wants_the_gradient_of_the_images",
    "\0 takes \0; got": "own/test_net.py::test_modules_and_what_makes_them_can_be_handed_over",
    "--layer-decay needs": "own/test_net.py::test_the_layers_are_as_deep_as_it_says",
    "this run uses \0; give": (
        "own/test_net.py::test_what_was_handed_over_stands_in_for_the_name_of_a_run"
    ),
    "which is not saved with the model": (
        "nets/test_own_runs.py::test_commands_want_the_code_to_be_named"
    ),
    "its net is your own code": ("nets/test_own_runs.py::test_commands_want_the_code_to_be_named"),
    "the weights in \0 as it is now": (
        "nets/test_own_runs.py::test_weights_of_other_code_are_refused"
    ),
    "--head zero needs a net": (
        "runs/test_finetune.py::test_a_net_without_a_last_layer_has_none_to_set"
    ),
    "contains a transformer of width": (
        "nets/test_recognise.py::test_files_of_other_nets_say_what_was_seen"
    ),
    "but is a different net": "nets/test_recognise.py::test_files_that_nearly_fit_are_refused",
    "is for images, but X contains rows": "runs/test_finetune.py::test_rows_take_no_weights",
    "options does not take": (
        "estimators/test_estimator.py::test_options_neither_contradict_the_parameters_nor_hide_labels"
    ),
    "does not match this net": (
        "nets/test_weights.py::test_weights_of_another_net_are_refused_and_change_nothing"
    ),
    "nothing to compare": (
        "report/test_report_comparison.py::test_nothing_to_compare_is_a_usage_error"
    ),
    "images: there is nothing to label": "review/test_start.py::test_where_it_cannot_start",
    " already have a label, by its folders or tables": (
        "review/test_start.py::test_a_folder_with_all_labels_and_a_table_with_more_columns"
    ),
    "Leave out --port to use a free one": "review/test_server.py",
    "is a folder; give a file": "review/test_store.py",
    "columns that would be lost": "review/test_store.py",
    "was changed by another program": "review/test_store.py",
    "is for other images": "review/test_store.py",
    "is not a saved training state": (
        "storage/test_checkpoint.py::test_a_pickle_in_a_checkpoint_runs_nothing"
    ),
    "checksum does not match": (
        "storage/test_checkpoint.py::test_every_torn_or_changed_byte_is_noticed"
    ),
    "is not as the run wrote it.": "faults/test_record.py::test_flipped_bits",
    "which the run there has not written": (
        "faults/test_record.py::test_a_bare_start_makes_no_file_beside_it_the_run_s"
    ),
    "and a run is not written through links": (
        "faults/test_record.py::test_a_folder_that_is_a_link_is_not_written_through"
    ),
    "\0 has been changed: \0. \0.": (
        "faults/test_record.py::test_a_changed_record_is_refused_by_name"
    ),
    "is a symbolic link. Give the folder": (
        "faults/test_record.py::test_the_record_of_several_seeds_is_checked_too"
    ),
    "\0 is damaged: \0.": "storage/test_checkpoint.py::test_every_torn_or_changed_byte_is_noticed",
    "needs the package": "model/test_export.py::test_a_missing_package_is_named",
    "torch cannot export the net": (
        "model/test_export.py::test_a_net_that_cannot_be_exported_is_named"
    ),
    "of the exported model differ": (
        "model/test_export.py::test_a_wrong_model_is_not_written_silently"
    ),
    "even if the model classifies all": (
        "runs/test_label.py::test_a_precision_is_promised_or_refused_with_the_reason"
    ),
    "no confidence threshold guarantees": (
        "runs/test_label.py::test_the_cut_keeps_ties_and_the_largest_share_that_holds"
    ),
    "out of memory: this process may use": (
        "faults/test_output.py::test_a_process_that_may_not_use_memory_says_so_in_one_line"
    ),
    "the output cannot be written": (
        "faults/test_output.py::test_an_answer_that_cannot_be_written_is_one_line"
    ),
    "--method \0 shifts logits at test time": (
        "frozen/test_tune.py::"
        "test_logits_shifted_at_test_time_do_not_fit_a_layer_that_is_solved_anew"
    ),
    "--set takes NAME=VALUE": ("bench/test_options.py::test_a_wrong_option_is_one_line"),
    "is given twice. For a row each": ("bench/test_options.py::test_a_wrong_option_is_one_line"),
    "--set gives the row \0 twice": ("bench/test_options.py::test_a_wrong_option_is_one_line"),
    "\0 is set by \0 here": ("bench/test_options.py::test_a_wrong_option_is_one_line"),
    "\0 is not an option.": ("bench/test_options.py::test_a_wrong_option_is_one_line"),
    "--data \0 does not exist.": ("bench/test_options.py::test_own_images"),
    "bench own needs --steps": ("bench/test_options.py::test_own_images"),
    "--table \0 has no errors": ("bench/test_options.py::test_a_table_of_ones_own_is_ranked"),
    "\0: the number of cells is": ("bench/test_options.py::test_a_table_of_ones_own_is_ranked"),
    "\0: there is a line of \0": ("bench/test_options.py::test_a_table_of_ones_own_is_ranked"),
    "\0: \0 under \0 is not a number": (
        "bench/test_options.py::test_a_table_of_ones_own_is_ranked"
    ),
    "--table \0 cannot be read": ("bench/test_options.py::test_a_table_of_ones_own_is_ranked"),
    "this method remembers single inputs": ("test_loop.py::test_a_mistake_is_one_line"),
    "\0 must be a whole number of at least": ("test_loop.py::test_a_mistake_is_one_line"),
    "prior must be a share for each": ("test_loop.py::test_a_mistake_is_one_line"),
    "batch takes the numbers of": ("test_loop.py::test_a_mistake_is_one_line"),
    "labels must be whole numbers": ("test_loop.py::test_a_mistake_is_one_line"),
    "labels must lie in 0": ("test_loop.py::test_a_mistake_is_one_line"),
    "calculates with its inputs": ("test_loop.py::test_a_mistake_is_one_line"),
    "names what it wants": ("test_loop.py::test_a_mistake_is_one_line"),
    "\0 must be a tensor of whole": ("test_loop.py::test_a_mistake_is_one_line"),
    "losses without after_step()": ("test_loop.py::test_a_forgotten_after_step_is_told"),
    "net must be a torch module": ("test_loop.py::test_a_mistake_is_one_line"),
    "example must be a tensor": ("test_loop.py::test_a_mistake_is_one_line"),
    "net: expected \0": ("test_loop.py::test_a_mistake_is_one_line"),
    "\0 must lie in 0 … \0, got": ("test_loop.py::test_a_mistake_is_one_line"),
    "from-usb \0: \0": ("settings/test_usb.py::test_what_cannot_be_translated_is_one_line"),
    "cannot be shared equally by \0": (
        "settings/test_usb.py::test_what_cannot_be_translated_is_one_line"
    ),
    "num_classes: \0 does not fit": (
        "settings/test_usb.py::test_what_cannot_be_translated_is_one_line"
    ),
    "ulb_imb_ratio: \0 needs": ("settings/test_usb.py::test_what_cannot_be_translated_is_one_line"),
    "is no method of this package": (
        "settings/test_usb.py::test_what_cannot_be_translated_is_one_line"
    ),
    "dataset: \0 is not provided": (
        "settings/test_usb.py::test_what_cannot_be_translated_is_one_line"
    ),
    "the run has no \0 rows": (
        "storage/test_history.py::test_the_command_writes_what_the_arrays_hold"
    ),
    "frame() needs pandas": ("storage/test_history.py::test_without_pandas_a_frame_asks_for_it"),
}
